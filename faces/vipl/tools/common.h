/* What the tools of the VIPL face share: options, a NIC with memory, a VI that is connected, times. */
#ifndef COMMON_H
#define COMMON_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "vipl.h"

enum {
	/* Receives that are posted at each side: whoever sends has as many messages under way at most. */
	RECEIVES = 16,
	SENDS = 16,
	/* From one descriptor to the next. */
	STRIDE = 64,
	ADDRESS_BYTES = 128
};
/* Milliseconds until the other side must be there. */
#define THERE 20000ul

static const char *tool;

static inline const char *describe(VIP_RETURN code)
{
	static const char *const texts[] = {"success", "not done", "wrong parameter (is there such a NIC?)", "not to be had",
	    "timed out", "rejected", "another reliability level", "another maximum transfer size",
	    "another quality of service", "wrong protection tag", "no RDMA read", "descriptor ended in error",
	    "wrong state", "name not known", "nobody waits there"};
	return (unsigned)code < sizeof texts / sizeof *texts ? texts[code] : "unknown error";
}

static inline void must(const char *what, VIP_RETURN code)
{
	if (code != VIP_SUCCESS) {
		fprintf(stderr, "%s: %s: %s\n", tool, what, describe(code));
		exit(1);
	}
}

static inline double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* A number from the command line; a mistake ends the tool with code 2. */
static inline unsigned long number(const char *option, const char *text, unsigned long max)
{
	char *end;
	unsigned long value = strtoul(text, &end, 0);
	if (*text == 0 || *text == '-' || *end != 0 || value > max) {
		fprintf(stderr, "%s: -%s %s: must be a number of at most %lu\n", tool, option, text, max);
		exit(2);
	}
	return value;
}

/* What both sides of a measurement are told. */
struct options {
	const char *destination, *point, *nic;
	unsigned long level, start, end, repetitions, factor, count, rank;
	int verify, blocking;
};

static inline void usage(const char *what, const char *synopsis)
{
	fprintf(stderr,
	    "%s: %s\n\n%s"
	    "  -p POINT    the discriminator that is waited at (%s)\n"
	    "  -n NIC      name of the NIC (the first)\n"
	    "  -l LEVEL    1 unreliable, 2 reliable delivery, 4 reliable reception (2)\n"
	    "  -S BYTES    shortest message (1)\n"
	    "  -E BYTES    longest message (4194304)\n"
	    "  -M FACTOR   from each length to the next (2)\n"
	    "  -N COUNT    messages of each length (1000; fewer of long ones)\n"
	    "  -V          verify what arrives\n"
	    "  -w          wait by sleeping in VipRecvWait, not by looking with VipRecvDone\n",
	    tool, what, synopsis, tool);
}

static inline struct options read_options(int count, char **arguments, const char *letters,
    const char *what, const char *synopsis)
{
	struct options options = {.point = tool, .level = 2, .start = 1, .end = 4 << 20,
		.repetitions = 1000, .factor = 2};
	int option;
	while ((option = getopt(count, arguments, letters)) != -1) {
		switch (option) {
		case 'd': options.destination = optarg; break;
		case 'p': options.point = optarg; break;
		case 'n': options.nic = optarg; break;
		case 'l': options.level = number("l", optarg, 4); break;
		case 'S': options.start = number("S", optarg, 64ul << 20); break;
		case 'E': options.end = number("E", optarg, 64ul << 20); break;
		case 'M': options.factor = number("M", optarg, 65536); break;
		case 'N': options.repetitions = number("N", optarg, 1ul << 30); break;
		case 'c': options.count = number("c", optarg, 64); break;
		case 'r': options.rank = number("r", optarg, 63); break;
		case 'V': options.verify = 1; break;
		case 'w': options.blocking = 1; break;
		case 'h': usage(what, synopsis); exit(0);
		default: usage(what, synopsis); exit(2);
		}
	}
	if (options.factor < 2 || options.repetitions == 0 || options.start > options.end || strlen(options.point) > 48 ||
	    (options.level != 1 && options.level != 2 && options.level != 4)) {
		fprintf(stderr, "%s: -M must be at least 2, -N at least 1, -S at most -E, -p at most 48 bytes, -l 1, 2 or 4\n", tool);
		exit(2);
	}
	return options;
}

static inline uint64_t next_length(uint64_t length, const struct options *options)
{
	return length == 0 ? 1 : length * options->factor;
}

/* Fewer of those that take long. */
static inline uint64_t repetitions(const struct options *options, uint64_t length)
{
	uint64_t some = (256ull << 20) / (length + 1) + 1;
	return options->repetitions < some ? options->repetitions : some;
}

/* One side: memory with descriptors first, then a buffer for each, and a VI. */
static VIP_NIC_HANDLE nic;
static VIP_NIC_ATTRIBUTES about;
static VIP_PROTECTION_HANDLE tag;
static unsigned char *memory;
static VIP_MEM_HANDLE handle;
static size_t memory_bytes, room;

static inline void open_nic(const struct options *options, size_t bytes)
{
	VIP_MEM_ATTRIBUTES shared;
	must("opening the NIC", VipOpenNic(options->nic, &nic));
	must("asking the NIC", VipQueryNic(nic, &about));
	must("the name service", VipNSInit(nic, NULL));
	must("a protection tag", VipCreatePtag(nic, &tag));
	memory_bytes = bytes;
	if (posix_memalign((void **)&memory, 4096, bytes)) {
		fprintf(stderr, "%s: no memory for messages of %lu bytes\n", tool, options->end);
		exit(1);
	}
	memset(memory, 0, bytes);
	shared.Ptag = tag;
	shared.EnableRdmaWrite = VIP_TRUE;
	shared.EnableRdmaRead = VIP_FALSE;
	must("registering memory", VipRegisterMem(nic, memory, bytes, &shared, &handle));
}

static inline void close_nic(void)
{
	must("deregistering memory", VipDeregisterMem(nic, memory, handle));
	must("the protection tag", VipDestroyPtag(nic, tag));
	must("the name service", VipNSShutdown(nic));
	must("closing the NIC", VipCloseNic(nic));
	free(memory);
}

static inline VIP_VI_HANDLE new_vi(const struct options *options)
{
	VIP_VI_ATTRIBUTES wanted;
	VIP_VI_HANDLE vi;
	memset(&wanted, 0, sizeof wanted);
	wanted.ReliabilityLevel = (VIP_RELIABILITY_LEVEL)options->level;
	wanted.MaxTransferSize = about.MaxTransferSize;
	wanted.Ptag = tag;
	wanted.EnableRdmaWrite = VIP_TRUE;
	must("a VI", VipCreateVi(nic, &wanted, NULL, NULL, &vi));
	return vi;
}

static inline void add_point(VIP_NET_ADDRESS *address, const char *point)
{
	address->DiscriminatorLen = (VIP_UINT16)strlen(point);
	memcpy((char *)address + 4 + address->HostAddressLen, point, strlen(point));
}

static inline void own_address(VIP_NET_ADDRESS *address, const char *point)
{
	address->HostAddressLen = about.NicAddressLen;
	memcpy((char *)address + 4, about.LocalNicAddress, about.NicAddressLen);
	add_point(address, point);
}

/* Waits to be connected to. */
static inline void be_server(VIP_VI_HANDLE vi, const char *point, unsigned long timeout)
{
	char own[ADDRESS_BYTES], from[ADDRESS_BYTES];
	VIP_VI_ATTRIBUTES remote;
	VIP_CONN_HANDLE connection;
	own_address((VIP_NET_ADDRESS *)own, point);
	must("waiting", VipConnectWait(nic, (VIP_NET_ADDRESS *)own, timeout, (VIP_NET_ADDRESS *)from, &remote, &connection));
	must("accepting", VipConnectAccept(connection, vi));
}

/* Connects, once the other side waits. */
static inline void be_client(VIP_VI_HANDLE vi, const char *host, const char *point)
{
	char own[ADDRESS_BYTES], other[ADDRESS_BYTES];
	VIP_RETURN code;
	double start = now();
	own_address((VIP_NET_ADDRESS *)own, point);
	do {
		code = VipNSGetHostByName(nic, (char *)host, (VIP_NET_ADDRESS *)other, 0);
		if (code == VIP_SUCCESS) {
			add_point((VIP_NET_ADDRESS *)other, point);
			code = VipConnectRequest(vi, (VIP_NET_ADDRESS *)own, (VIP_NET_ADDRESS *)other, THERE, NULL);
		}
		if (code != VIP_SUCCESS)
			usleep(10000);
	} while ((code == VIP_NO_MATCH || code == VIP_ERROR_NAMESERVICE) && now() - start < THERE / 1e3);
	must("connecting", code);
}

/* The n-th descriptor, for so many bytes of its buffer. */
static inline VIP_DESCRIPTOR *descriptor(int n, uint64_t length)
{
	VIP_DESCRIPTOR *d = (VIP_DESCRIPTOR *)(memory + (size_t)n * STRIDE);
	memset(d, 0, sizeof *d);
	d->CS.SegCount = 1;
	d->CS.Length = d->DS[0].Local.Length = (VIP_UINT32)length;
	d->DS[0].Local.Handle = handle;
	d->DS[0].Local.Data.Address = memory + 4096 + (size_t)n * room;
	return d;
}

static inline VIP_DESCRIPTOR *received(VIP_VI_HANDLE vi, int blocking)
{
	VIP_DESCRIPTOR *d;
	VIP_RETURN code;
	if (blocking)
		code = VipRecvWait(vi, VIP_INFINITE, &d);
	else
		while ((code = VipRecvDone(vi, &d)) == VIP_NOT_DONE)
			;
	must("receiving", code);
	return d;
}

static inline void sent(VIP_VI_HANDLE vi, int blocking)
{
	VIP_DESCRIPTOR *d;
	VIP_RETURN code;
	if (blocking)
		code = VipSendWait(vi, VIP_INFINITE, &d);
	else
		while ((code = VipSendDone(vi, &d)) == VIP_NOT_DONE)
			;
	must("sending", code);
}

static inline void fill(unsigned char *bytes, uint64_t length, uint64_t seed)
{
	for (uint64_t i = 0; i < length; i++)
		bytes[i] = (unsigned char)(seed + i * 13 + (i >> 8));
}

static inline void verify(const unsigned char *bytes, uint64_t length, uint64_t seed)
{
	for (uint64_t i = 0; i < length; i++)
		if (bytes[i] != (unsigned char)(seed + i * 13 + (i >> 8))) {
			fprintf(stderr, "%s: byte %llu of %llu is wrong\n", tool, (unsigned long long)i,
			    (unsigned long long)length);
			exit(1);
		}
}

#endif
