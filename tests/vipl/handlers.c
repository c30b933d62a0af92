/* Handlers of queues and completion queues; a status that a program waits for in memory; wrong handles. */
#include "check.h"

static volatile int calls;
static void *volatile last;
static volatile VIP_BOOLEAN last_receive;
static struct side *volatile of;

static void queue_handler(VIP_PVOID context, VIP_NIC_HANDLE nic, VIP_VI_HANDLE vi, VIP_DESCRIPTOR *d)
{
	struct side *side = context;
	CHECK(nic == side->nic && vi == side->vi);
	/* Handlers may call the library, but not close what they stand on. */
	CHECK(state_of(vi) == VIP_STATE_CONNECTED);
	BAD(VipCloseNic(nic));
	of = side;
	last = d;
	calls++;
}

static void cq_handler(VIP_PVOID context, VIP_NIC_HANDLE nic, VIP_VI_HANDLE vi, VIP_BOOLEAN receive)
{
	struct side *side = context;
	VIP_DESCRIPTOR *d = NULL;
	CHECK(nic == side->nic && vi == side->vi);
	OK(receive ? VipRecvDone(vi, &d) : VipSendDone(vi, &d));
	last = d;
	last_receive = receive;
	calls++;
}

static void called(int times, void *with)
{
	UNTIL(calls >= times);
	CHECK(calls == times);
	CHECK(last == with);
}

void test_notify(void)
{
	calls = 0;
	connect_both(VIP_SERVICE_RELIABLE_DELIVERY);
	/* Registered before, and while nobody calls the library. */
	VIP_DESCRIPTOR *in = descriptor(&b, 0, 0, 100), *in2 = descriptor(&b, 1, 0, 100), *got;
	VIP_DESCRIPTOR *out = descriptor(&a, 0, 0, 50), *out2 = descriptor(&a, 1, 0, 50);
	post_recv(&b, in);
	post_recv(&b, in2);
	OK(VipRecvNotify(b.vi, &b, queue_handler));
	post_send(&a, out);
	called(1, in);
	CHECK(in->CS.Status == RECEIVED && in->CS.Length == 50);
	/* Once for each registration. */
	post_send(&a, out2);
	sent(&a, out, DONE);
	sent(&a, out2, DONE);
	pause_ms(50);
	CHECK(calls == 1);
	received(&b, in2, RECEIVED, 50);
	/* What is done already is told at once; sends have theirs; registrations queue. */
	post_recv(&b, in);
	post_recv(&b, in2);
	post_send(&a, out);
	OK(VipSendNotify(a.vi, &a, queue_handler));
	called(2, out);
	CHECK(of == &a);
	OK(VipRecvNotify(b.vi, &b, queue_handler));
	OK(VipRecvNotify(b.vi, &b, queue_handler));
	called(3, in);
	post_send(&a, out2);
	called(4, in2);
	sent(&a, out2, DONE);
	RETURNS(VipRecvDone(b.vi, &got), VIP_DESCRIPTOR_ERROR);
	BAD(VipRecvNotify(b.vi, &b, NULL));
	BAD(VipSendNotify(NOTHING, &b, queue_handler));
	BAD(VipRecvNotify(NOTHING, &b, queue_handler));
	/* One that never comes goes with its VI. */
	OK(VipSendNotify(a.vi, &a, queue_handler));
	part_both();
	pause_ms(30);
	CHECK(calls == 4);

	VIP_CQ_HANDLE cq;
	VIP_VI_ATTRIBUTES wanted = attributes(&b, VIP_SERVICE_RELIABLE_DELIVERY);
	OK(VipCreateCQ(b.nic, 8, &cq));
	a.vi = new_vi(&a, VIP_SERVICE_RELIABLE_DELIVERY);
	MUST(VipCreateVi(b.nic, &wanted, cq, cq, &b.vi));
	join(a.vi, b.vi);
	BAD(VipRecvNotify(b.vi, &b, queue_handler));
	BAD(VipSendNotify(b.vi, &b, queue_handler));
	BAD(VipCQNotify(cq, &b, NULL));
	BAD(VipCQNotify(NOTHING, &b, cq_handler));
	calls = 0;
	OK(VipCQNotify(cq, &b, cq_handler));
	post_recv(&b, in);
	post_send(&a, out);
	called(1, in);
	CHECK(last_receive == VIP_TRUE);
	sent(&a, out, DONE);
	VIP_DESCRIPTOR *back = descriptor(&a, 2, 0, 50), *reply = descriptor(&b, 2, 0, 50);
	post_recv(&a, back);
	post_send(&b, reply);
	received(&a, back, RECEIVED, 50);
	OK(VipCQNotify(cq, &b, cq_handler));
	called(2, reply);
	CHECK(last_receive == VIP_FALSE);
	/* One that waits goes with the queue. */
	OK(VipCQNotify(cq, &b, cq_handler));
	part_both();
	OK(VipDestroyCQ(cq));
	CHECK(calls == 2);
}

/* A handler that returns when it is let, and then not at once. */
static struct {
	int running, calls, leave;
} slow;

static void slow_handler(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
{
	CHECK(context == &slow && error->ErrorCode == VIP_ERROR_CONN_LOST);
	/* It may be replaced while it runs, also by itself. */
	OK(VipErrorCallback(error->NicHandle, &slow, slow_handler));
	SET(slow.running, 1);
	SET(slow.calls, slow.calls + 1);
	UNTIL(GET(slow.leave));
	pause_ms(50);
	SET(slow.running, 0);
}

void test_errors(void)
{
	/* The handler of errors is told what nobody asked for; without one, the log is. */
	connect_both(VIP_SERVICE_RELIABLE_DELIVERY);
	OK(VipErrorCallback(b.nic, NULL, NULL));
	BAD(VipErrorCallback(NOTHING, NULL, NULL));
	OK(VipDisconnect(a.vi));
	becomes(b.vi, VIP_STATE_ERROR);
	OK(VipDisconnect(b.vi));
	OK(VipDestroyVi(a.vi));
	OK(VipDestroyVi(b.vi));
	CHECK(untold(&b) == 0);
	/* One that was replaced runs no more, and of a VI that is gone nothing is told. */
	memset(&slow, 0, sizeof slow);
	connect_both(VIP_SERVICE_RELIABLE_DELIVERY);
	VIP_VI_HANDLE beside_a = new_vi(&a, VIP_SERVICE_RELIABLE_DELIVERY);
	VIP_VI_HANDLE beside_b = new_vi(&b, VIP_SERVICE_RELIABLE_DELIVERY);
	join(beside_a, beside_b);
	OK(VipErrorCallback(b.nic, &slow, slow_handler));
	OK(VipDisconnect(a.vi));
	UNTIL(GET(slow.running));
	OK(VipDisconnect(beside_a));
	becomes(beside_b, VIP_STATE_ERROR);
	OK(VipDisconnect(beside_b));
	OK(VipDestroyVi(beside_b));
	OK(VipDestroyVi(beside_a));
	SET(slow.leave, 1);
	expect_errors(&b);
	CHECK(!GET(slow.running) && GET(slow.calls) == 1);
	OK(VipDisconnect(b.vi));
	OK(VipDestroyVi(a.vi));
	OK(VipDestroyVi(b.vi));
	CHECK(untold(&b) == 0);
}

/* Programs may look at the descriptor itself, without any call. */
void test_status_in_memory(void)
{
	connect_both(VIP_SERVICE_RELIABLE_DELIVERY);
	for (int round = 0; round < 3; round++) {
		VIP_DESCRIPTOR *in = descriptor(&b, 0, 0, 100000), *out = descriptor(&a, 0, 0, 100000), *got;
		fill(data(&a, 0), 100000, (unsigned)round);
		post_recv(&b, in);
		post_send(&a, out);
		UNTIL_BY(*(volatile VIP_UINT32 *)&in->CS.Status & DONE, );
		CHECK(in->CS.Status == RECEIVED && in->CS.Length == 100000);
		CHECK(is_filled(data(&b, 0), 100000, (unsigned)round));
		OK(VipRecvDone(b.vi, &got));
		sent(&a, out, DONE);
	}
	part_both();
}

void test_wrong_handles(void)
{
	VIP_DESCRIPTOR *d;
	VIP_VI_STATE state;
	VIP_BOOLEAN receive;
	VIP_VI_HANDLE vi;
	connect_both(VIP_SERVICE_RELIABLE_DELIVERY);
	/* Null, numbers, addresses, handles of other kinds. */
	void *wrong[] = {NULL, NOTHING, &vi, a.memory, (void *)-1l, a.nic, a.tag};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		BAD(VipSendDone(wrong[i], &d));
		BAD(VipRecvDone(wrong[i], &d));
		BAD(VipSendWait(wrong[i], 1, &d));
		BAD(VipRecvWait(wrong[i], 1, &d));
		BAD(VipQueryVi(wrong[i], &state, NULL, NULL, NULL));
		BAD(VipDestroyVi(wrong[i]));
		BAD(VipDisconnect(wrong[i]));
		BAD(VipCQDone(wrong[i], &vi, &receive));
		BAD(VipConnectReject(wrong[i]));
		if (wrong[i] != a.nic) {
			BAD(VipCloseNic(wrong[i]));
			BAD(VipNSInit(wrong[i], NULL));
		}
	}
	BAD(VipSendDone(a.vi, NULL));
	BAD(VipRecvDone(a.vi, NULL));
	BAD(VipSendWait(a.vi, 1, NULL));
	BAD(VipRecvWait(a.vi, 1, NULL));
	for (int bit = 0; bit < 64; bit++) {
		void *flipped = (void *)((VIP_UINT64)a.vi ^ 1ul << bit);
		/* One bit may be all that the VIs of two NICs differ by. */
		if (flipped != b.vi)
			BAD(VipQueryVi(flipped, &state, NULL, NULL, NULL));
	}
	part_both();
	/* Old ones, when others have their places. */
	VIP_VI_HANDLE old = a.vi;
	a.vi = new_vi(&a, VIP_SERVICE_UNRELIABLE);
	CHECK(a.vi != old);
	BAD(VipQueryVi(old, &state, NULL, NULL, NULL));
	OK(VipDestroyVi(a.vi));
}
