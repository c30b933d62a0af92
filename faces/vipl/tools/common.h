/* What the tools of the VIPL face share: options, a NIC with memory, a VI that is connected, times. */
#ifndef COMMON_H
#define COMMON_H

#include "../../common/tools/measure.h"
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

/* What both sides of a measurement are told. */
struct options {
	struct span span;
	const char *destination, *point, *nic;
	unsigned long level, count, rank;
	int blocking;
};

static inline void usage(const char *what, const char *synopsis)
{
	fprintf(stderr,
	    "%s: %s\n\n%s"
	    "  -p POINT         the discriminator that is waited at (%s)\n"
	    "  -n NIC           name of the NIC (the first)\n"
	    "  -l LEVEL         1 unreliable, 2 reliable delivery, 4 reliable reception (2)\n"
	    SPAN_USAGE
	    "  -w               wait by sleeping in VipRecvWait, not by looking with VipRecvDone\n",
	    tool, what, synopsis, tool);
}

static inline struct options read_options(int count, char **arguments, const char *letters,
    const char *what, const char *synopsis)
{
	struct options options = {.span = SPAN, .point = tool, .level = 2};
	int option;
	while ((option = getopt(count, arguments, letters)) != -1) {
		switch (option) {
		case 'd': options.destination = optarg; break;
		case 'p': options.point = optarg; break;
		case 'n': options.nic = optarg; break;
		case 'l': options.level = number(option, optarg, 4); break;
		case 'c': options.count = number(option, optarg, 64); break;
		case 'r': options.rank = number(option, optarg, 63); break;
		case 'w': options.blocking = 1; break;
		case 'h': usage(what, synopsis); exit(0);
		default:
			if (read_span(&options.span, option, optarg, 64ul << 20))
				break;
			usage(what, synopsis);
			exit(2);
		}
	}
	check_span(&options.span);
	if (strlen(options.point) > 48 || (options.level != 1 && options.level != 2 && options.level != 4)) {
		fprintf(stderr, "%s: -p must have at most 48 bytes, and -l must be 1, 2 or 4\n", tool);
		exit(2);
	}
	return options;
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
		fprintf(stderr, "%s: no memory for messages of %lu bytes\n", tool, options->span.end);
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

#endif
