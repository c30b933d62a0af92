use super::*;

fn ends() -> (Channel, Channel, OwnedFd) {
    let (service, memory, bell) = Channel::create().expect("memory is to be had");
    let client = Channel::open(memory.as_fd(), bell).expect("it can be mapped");
    (service, client, memory)
}

#[test]
fn frames_come_with_their_address() {
    let (mut service, mut client, memory) = ends();
    assert_eq!(service.listen(), Ok(Heard::Bell), "the memory is mapped");
    service.keep(memory.as_fd()).expect("it is sealed");
    let mut buffer = vec![0; RECORD_BYTES_MAX];
    for (number, to) in
        [LinkAddress::EVERYONE, LinkAddress::mac([2, 0, 0, 0, 0, 9])].into_iter().enumerate()
    {
        let address = address_bytes(&to).expect("it is one");
        let parts = [&b"head"[..], &b"payload"[..]];
        assert_eq!(client.push(&address, 11, parts.into_iter()), Ok(true), "{number}");
        assert_eq!(service.pop(&mut buffer), Ok(Some(Record::Frame(to, 11))));
        assert_eq!(&buffer[ADDRESS_BYTES..ADDRESS_BYTES + 11], b"headpayload");
    }
    assert_eq!(service.pop(&mut buffer), Ok(None));
    let longest = vec![7; FRAME_BYTES_MAX];
    let address = address_bytes(&LinkAddress::EVERYONE).expect("it is one");
    assert_eq!(service.push(&address, longest.len(), [&longest[..]].into_iter()), Ok(true));
    let came = Record::Frame(LinkAddress::EVERYONE, FRAME_BYTES_MAX);
    assert_eq!(client.pop(&mut buffer), Ok(Some(came)));
}

#[test]
fn what_the_service_says_is_read_as_it_was_said() {
    let (mut service, mut client, _memory) = ends();
    let mut buffer = vec![0; RECORD_BYTES_MAX];
    for trouble in Trouble::ALL {
        let said = Said {
            refused: 1 << 40,
            system_errors: 7,
            mtu: 9000,
            mac: [1, 2, 3, 4, 5, 6],
            trouble,
        };
        assert_eq!(service.say(&said), Ok(true));
        assert_eq!(client.pop(&mut buffer), Ok(Some(Record::Said(said))));
        assert_eq!(Trouble::of(trouble.text()), trouble);
    }
}

#[test]
fn a_sleeper_is_rung_once_and_who_rings_oftener_is_found_out() {
    let (mut service, mut client, _memory) = ends();
    let address = address_bytes(&LinkAddress::EVERYONE).expect("it is one");
    assert_eq!(service.listen(), Ok(Heard::Bell));
    let mut buffer = vec![0; RECORD_BYTES_MAX];
    for _ in 0..3 {
        assert!(!service.arm());
        for rings in [true, false, false] {
            assert_eq!(client.push(&address, 1, [&[0u8][..]].into_iter()), Ok(true));
            assert_eq!(client.wake(), rings);
        }
        assert_eq!(service.listen(), Ok(Heard::Bell));
        assert_eq!(service.listen(), Ok(Heard::Nothing));
        service.disarm();
        while service.pop(&mut buffer).expect("sound").is_some() {}
    }
    socket::send(client.bell(), &BELL, &[]).expect("there is room");
    assert_eq!(service.listen(), Err(Broken::Rung));
    drop(client);
    assert_eq!(service.listen(), Ok(Heard::Gone));
}

#[test]
fn a_gift_comes_to_who_listens_for_it() {
    let (service, client, memory) = ends();
    let (kept, given) = socket::pair().expect("two ends");
    assert_eq!(service.listen(), Ok(Heard::Bell), "the memory is mapped");
    client.give(Gift::State, given.as_fd()).expect("there is room");
    drop(given);
    let (heard, gift) = service.listen_for_gifts().expect("sound");
    let (kind, _given) = gift.expect("it was given");
    assert!(heard == Heard::Bell && kind == Gift::State && !socket::is_over(kept.as_fd()));
    assert!(matches!(service.listen_for_gifts(), Ok((Heard::Nothing, None))));
    // Nobody takes it here.
    client.give(Gift::Memory, memory.as_fd()).expect("there is room");
    assert_eq!(service.listen(), Err(Broken::Rung));
    client.hang_up();
    assert_eq!(service.listen(), Ok(Heard::Gone));
    assert_eq!(client.listen(), Ok(Heard::Nothing), "the service is there");
    drop(service);
    assert_eq!(client.listen(), Ok(Heard::Gone));
}

#[test]
fn addresses_of_some_are_none() {
    for to in [LinkAddress::EVERYONE, LinkAddress::mac([2, 0, 0, 0, 0, 9])] {
        assert_eq!(address_bytes(&to).and_then(address_of), Some(to));
    }
    assert_eq!(address_bytes(&LinkAddress::LOOPBACK), None);
    for none in [[1, 0, 0x5e, 0, 0, 1, 0, 0], [0; 8], [2, 0, 0, 0, 0, 9, 0, 1]] {
        assert_eq!(address_of(none), None, "{none:?}");
    }
}
