/* The shortest program that sends a frame there and back: by a socket of UDP, or by a raw socket with a ring to receive in. What the bare
 * links of `emp bench` are measured against (tests/bare/measure).
 *
 *   pingpong udp  OWN-IP PEER-IP [ROUNDS BYTES]             with ROUNDS it asks and prints the microseconds of one way, else it answers
 *   pingpong ring INTERFACE PEER-MAC [ROUNDS BYTES]
 *
 * One call to send and none (ring) or one (udp) to receive; both ends look all the time. It ends when nothing has come for ten seconds. */
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PORT = 51990, TYPE = 0x88b6, SLOT = 2048, SLOTS = 256, HEAD = 14, PATIENCE = 10 };

static int fd;
static unsigned char *ring;
static unsigned slot;
static char frame[2048];
static size_t length;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void check(long result, const char *what)
{
	if (result < 0) {
		perror(what);
		exit(2);
	}
}

static void open_udp(const char *own, const char *peer)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(PORT)};
	check(fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0), "socket");
	inet_pton(AF_INET, own, &address.sin_addr);
	check(bind(fd, (void *)&address, sizeof address), "bind");
	inet_pton(AF_INET, peer, &address.sin_addr);
	check(connect(fd, (void *)&address, sizeof address), "connect");
}

static void open_ring(const char *interface, const char *peer)
{
	int one = 1, version = TPACKET_V2;
	struct tpacket_req shape = {65536, SLOT * SLOTS / 65536, SLOT, SLOTS};
	struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_protocol = htons(TYPE)};
	unsigned mac[6];
	struct ifreq request = {0};

	check(fd = socket(AF_PACKET, SOCK_RAW, 0), "socket");
	check(setsockopt(fd, SOL_PACKET, PACKET_VERSION, &version, sizeof version), "version");
	check(setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &one, sizeof one), "bypass");
	check(setsockopt(fd, SOL_PACKET, PACKET_RX_RING, &shape, sizeof shape), "ring");
	ring = mmap(NULL, SLOT * SLOTS, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	check(ring == MAP_FAILED ? -1 : 0, "mmap");
	address.sll_ifindex = if_nametoindex(interface);
	check(bind(fd, (void *)&address, sizeof address), "bind");
	strncpy(request.ifr_name, interface, IFNAMSIZ - 1);
	check(ioctl(fd, SIOCGIFHWADDR, &request), "own address");
	sscanf(peer, "%x:%x:%x:%x:%x:%x", &mac[0], &mac[1], &mac[2], &mac[3], &mac[4], &mac[5]);
	for (int i = 0; i < 6; i++)
		frame[i] = mac[i];
	memcpy(frame + 6, request.ifr_hwaddr.sa_data, 6);
	*(unsigned short *)(frame + 12) = htons(TYPE);
}

/* Takes what has come, which has this many bytes; ends the program if nothing comes. */
static size_t take(void)
{
	double end = now() + PATIENCE;
	for (unsigned tries = 1;; tries++) {
		if (!ring) {
			ssize_t got = recv(fd, frame, sizeof frame, 0);
			if (got > 0)
				return got;
		} else {
			struct tpacket2_hdr *head = (void *)(ring + slot * SLOT);
			if (__atomic_load_n(&head->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER) {
				size_t bytes = head->tp_len;
				memcpy(frame + HEAD, ring + slot * SLOT + head->tp_mac + HEAD, bytes - HEAD);
				__atomic_store_n(&head->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
				slot = (slot + 1) % SLOTS;
				return bytes;
			}
		}
		if (tries % 65536 == 0 && now() > end)
			exit(0);
	}
}

static void put(size_t bytes)
{
	while (send(fd, frame, bytes, 0) < 0)
		;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

int main(int count, char **words)
{
	if (count != 4 && count != 6)
		return 2;
	(strcmp(words[1], "ring") ? open_udp : open_ring)(words[2], words[3]);
	if (count == 4) {
		puts("ready");
		fflush(stdout);
		for (;;)
			put(take());
	}
	enum { SLICES = 101 };
	double slices[SLICES];
	long rounds = atol(words[4]) / SLICES;
	length = atol(words[5]) + (ring ? HEAD : 0);
	for (int i = 0; i < SLICES; i++) {
		double start = now();
		for (long round = 0; round < rounds; round++) {
			put(length);
			take();
		}
		slices[i] = (now() - start) / rounds / 2 * 1e6;
	}
	qsort(slices, SLICES, sizeof *slices, by_size);
	printf("%.3f\n", slices[SLICES / 2]);
	return 0;
}
