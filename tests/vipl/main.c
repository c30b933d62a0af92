/*
 * Holds libvipl.so to VIA 1.0's VIPL, call by call.
 *
 *   conformance [TEST...]         in one process, on this machine
 *   conformance passive           waits for the other one
 *   conformance active HOST       the same things, between two processes: HOST is the other one's name or address
 *   conformance stay POINT        waits to be connected to, and stays until it is ended: for tests
 */
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

int checks, failures;
const char *current = "", *program;
struct side a, b;

static const struct {
	const char *name;
	void (*run)(void);
} tests[] = {
	{"layout", test_layout},
	{"nics", test_nics},
	{"tags", test_tags},
	{"memory", test_memory},
	{"vis", test_vis},
	{"vi_attributes", test_vi_attributes},
	{"names", test_names},
	{"connecting", test_connecting},
	{"requests", test_requests},
	{"agreement", test_agreement},
	{"peers", test_peers},
	{"discriminators", test_discriminators},
	{"sizes", test_sizes},
	{"segments", test_segments},
	{"immediate", test_immediate},
	{"order", test_order},
	{"queues", test_queues},
	{"cqs", test_cqs},
	{"writes", test_writes},
	{"reads", test_reads},
	{"fence", test_fence},
	{"protection", test_protection},
	{"descriptors", test_descriptors},
	{"lengths", test_lengths},
	{"no_receive", test_no_receive},
	{"disconnect", test_disconnect},
	{"deregister", test_deregister},
	{"notify", test_notify},
	{"status_in_memory", test_status_in_memory},
	{"wrong_handles", test_wrong_handles},
	{"threads", test_threads},
	{"many", test_many},
	{"killed_peer", test_killed_peer},
	{"stopped_door", test_stopped_door},
	{"fork", test_fork},
};

const char *code_name(VIP_RETURN code)
{
	static const char *const names[] = {"VIP_SUCCESS", "VIP_NOT_DONE", "VIP_INVALID_PARAMETER",
	    "VIP_ERROR_RESOURCE", "VIP_TIMEOUT", "VIP_REJECT", "VIP_INVALID_RELIABILITY_LEVEL",
	    "VIP_INVALID_MTU", "VIP_INVALID_QOS", "VIP_INVALID_PTAG", "VIP_INVALID_RDMAREAD",
	    "VIP_DESCRIPTOR_ERROR", "VIP_INVALID_STATE", "VIP_ERROR_NAMESERVICE", "VIP_NO_MATCH",
	    "VIP_NOT_REACHABLE", "VIP_ERROR_NOT_SUPPORTED"};
	return (unsigned)code < sizeof names / sizeof *names ? names[code] : "no such code";
}

double seconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

void pause_ms(unsigned ms)
{
	usleep(ms * 1000);
}

void fill(unsigned char *memory, size_t length, unsigned seed)
{
	for (size_t i = 0; i < length; i++)
		memory[i] = (unsigned char)(seed * 31 + i * 7 + (i >> 8));
}

int is_filled(const unsigned char *memory, size_t length, unsigned seed)
{
	for (size_t i = 0; i < length; i++)
		if (memory[i] != (unsigned char)(seed * 31 + i * 7 + (i >> 8)))
			return 0;
	return 1;
}

static void error_handler(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
{
	struct side *side = context;
	CHECK(error->NicHandle == side->nic);
	side->code = error->ErrorCode;
	side->resource = error->ResourceCode;
	side->failed = error->DescriptorPtr;
	__sync_fetch_and_add(&side->errors, 1);
	/* The next one only when this was looked at. */
	for (int i = 0; i < 500 && side->errors > 0; i++)
		pause_ms(1);
}

void told(struct side *side, VIP_RESOURCE_CODE resource, VIP_ERROR_CODE code)
{
	double start = seconds();
	while (side->errors == 0 && seconds() - start < 20)
		pause_ms(1);
	CHECK(side->errors == 1);
	CHECK(side->resource == resource);
	CHECK(side->code == code);
	if (side->code != code || side->resource != resource)
		fprintf(stderr, "  in %s: resource %d, code %d\n", current, side->resource, side->code);
	side->errors = 0;
}

void open_side(struct side *side, const char *name)
{
	VIP_MEM_ATTRIBUTES shared;
	MUST(VipOpenNic(name, &side->nic));
	MUST(VipQueryNic(side->nic, &side->about));
	MUST(VipErrorCallback(side->nic, side, error_handler));
	MUST(VipCreatePtag(side->nic, &side->tag));
	if (posix_memalign((void **)&side->memory, 4096, MEMORY_BYTES))
		exit(1);
	memset(side->memory, 0, MEMORY_BYTES);
	shared.Ptag = side->tag;
	shared.EnableRdmaWrite = shared.EnableRdmaRead = VIP_TRUE;
	MUST(VipRegisterMem(side->nic, side->memory, MEMORY_BYTES, &shared, &side->handle));
	side->errors = 0;
	side->vi = NULL;
}

void close_side(struct side *side)
{
	OK(VipDeregisterMem(side->nic, side->memory, side->handle));
	OK(VipDestroyPtag(side->nic, side->tag));
	OK(VipCloseNic(side->nic));
	free(side->memory);
}

VIP_VI_ATTRIBUTES attributes(const struct side *side, VIP_RELIABILITY_LEVEL level)
{
	VIP_VI_ATTRIBUTES attributes;
	memset(&attributes, 0, sizeof attributes);
	attributes.ReliabilityLevel = level;
	attributes.MaxTransferSize = TRANSFER;
	attributes.Ptag = side->tag;
	attributes.EnableRdmaWrite = VIP_TRUE;
	attributes.EnableRdmaRead = level != VIP_SERVICE_UNRELIABLE;
	return attributes;
}

VIP_VI_HANDLE new_vi(struct side *side, VIP_RELIABILITY_LEVEL level)
{
	VIP_VI_ATTRIBUTES wanted = attributes(side, level);
	VIP_VI_HANDLE vi = NULL;
	MUST(VipCreateVi(side->nic, &wanted, NULL, NULL, &vi));
	return vi;
}

VIP_NET_ADDRESS *address(const struct side *side, const char *discriminator)
{
	/* Each call its own, a few at a time; threads have theirs. */
	static __thread char room[32][ADDRESS_BYTES + 6] __attribute__((aligned(8)));
	static __thread unsigned next;
	VIP_NET_ADDRESS *address = (VIP_NET_ADDRESS *)room[next++ % 32];
	size_t length = strlen(discriminator);
	address->HostAddressLen = side->about.NicAddressLen;
	address->DiscriminatorLen = (VIP_UINT16)length;
	memcpy(address->HostAddress, side->about.LocalNicAddress, side->about.NicAddressLen);
	memcpy(address->HostAddress + side->about.NicAddressLen, discriminator, length);
	return address;
}

struct serving {
	VIP_VI_HANDLE vi;
	VIP_RETURN waited, accepted;
};

static void *serve(void *argument)
{
	struct serving *serving = argument;
	char from[ADDRESS_BYTES] __attribute__((aligned(8)));
	VIP_VI_ATTRIBUTES remote;
	VIP_CONN_HANDLE connection = NULL;
	serving->waited = VipConnectWait(b.nic, address(&b, "join"), LONG, (VIP_NET_ADDRESS *)from, &remote, &connection);
	serving->accepted = VIP_NOT_DONE;
	if (serving->waited == VIP_SUCCESS)
		serving->accepted = VipConnectAccept(connection, serving->vi);
	return NULL;
}

void join(VIP_VI_HANDLE client, VIP_VI_HANDLE server)
{
	struct serving serving = {server, VIP_NOT_DONE, VIP_NOT_DONE};
	VIP_VI_ATTRIBUTES remote;
	VIP_RETURN requested;
	pthread_t thread;
	pthread_create(&thread, NULL, serve, &serving);
	/* The server may not wait yet. */
	do
		requested = VipConnectRequest(client, address(&a, "client"), address(&b, "join"), LONG, &remote);
	while (requested == VIP_NO_MATCH);
	pthread_join(thread, NULL);
	MUST(requested);
	MUST(serving.waited);
	MUST(serving.accepted);
}

void connect_both(VIP_RELIABILITY_LEVEL level)
{
	a.vi = new_vi(&a, level);
	b.vi = new_vi(&b, level);
	join(a.vi, b.vi);
}

void drain(VIP_VI_HANDLE vi)
{
	VIP_DESCRIPTOR *descriptor;
	VIP_RETURN result;
	do
		result = VipSendDone(vi, &descriptor);
	while (result == VIP_SUCCESS || (result == VIP_DESCRIPTOR_ERROR && descriptor));
	CHECK(result == VIP_DESCRIPTOR_ERROR && !descriptor);
	do
		result = VipRecvDone(vi, &descriptor);
	while (result == VIP_SUCCESS || (result == VIP_DESCRIPTOR_ERROR && descriptor));
	CHECK(result == VIP_DESCRIPTOR_ERROR && !descriptor);
}

void part_both(void)
{
	OK(VipDisconnect(a.vi));
	if (state_of(b.vi) == VIP_STATE_CONNECTED)
		told(&b, VIP_RESOURCE_VI, VIP_ERROR_CONN_LOST);
	OK(VipDisconnect(b.vi));
	drain(a.vi);
	drain(b.vi);
	OK(VipDestroyVi(a.vi));
	OK(VipDestroyVi(b.vi));
	pause_ms(2);
	a.errors = b.errors = 0;
}

unsigned char *data(struct side *side, size_t offset)
{
	return side->memory + DATA + offset;
}

VIP_DESCRIPTOR *descriptor(struct side *side, int n, size_t offset, size_t length)
{
	VIP_DESCRIPTOR *d = (VIP_DESCRIPTOR *)(side->memory + (size_t)n * STRIDE);
	memset(d, 0, sizeof *d);
	d->CS.SegCount = 1;
	d->CS.Length = (VIP_UINT32)length;
	d->DS[0].Local.Data.Address = data(side, offset);
	d->DS[0].Local.Handle = side->handle;
	d->DS[0].Local.Length = (VIP_UINT32)length;
	return d;
}

VIP_DESCRIPTOR *rdma(struct side *side, int n, int operation, size_t offset, size_t length,
    struct side *other, size_t remote)
{
	VIP_DESCRIPTOR *d = descriptor(side, n, offset, length);
	d->DS[1] = d->DS[0];
	d->CS.SegCount = 2;
	d->CS.Control = (VIP_UINT16)operation;
	d->DS[0].Remote.Data.Address = data(other, remote);
	d->DS[0].Remote.Handle = other->handle;
	d->DS[0].Remote.Reserved = 0;
	return d;
}

void post_send(struct side *side, VIP_DESCRIPTOR *d)
{
	MUST(VipPostSend(side->vi, d, side->handle));
}

void post_recv(struct side *side, VIP_DESCRIPTOR *d)
{
	MUST(VipPostRecv(side->vi, d, side->handle));
}

static void is_done(VIP_RETURN code, VIP_DESCRIPTOR *got, VIP_DESCRIPTOR *wanted, VIP_UINT32 status)
{
	CHECK(got == wanted);
	RETURNS(code, status & VIP_STATUS_ERROR_MASK ? VIP_DESCRIPTOR_ERROR : VIP_SUCCESS);
	CHECK(wanted->CS.Status == status);
	if (wanted->CS.Status != status)
		fprintf(stderr, "  in %s: status %x, not %x\n", current, wanted->CS.Status, status);
}

void sent(struct side *side, VIP_DESCRIPTOR *wanted, VIP_UINT32 status)
{
	VIP_DESCRIPTOR *got = NULL;
	VIP_RETURN code = VipSendWait(side->vi, LONG, &got);
	is_done(code, got, wanted, status);
}

void received(struct side *side, VIP_DESCRIPTOR *wanted, VIP_UINT32 status, VIP_UINT32 length)
{
	VIP_DESCRIPTOR *got = NULL;
	VIP_RETURN code = VipRecvWait(side->vi, LONG, &got);
	is_done(code, got, wanted, status);
	CHECK(wanted->CS.Length == length);
}

VIP_VI_STATE state_of(VIP_VI_HANDLE vi)
{
	VIP_VI_STATE state;
	MUST(VipQueryVi(vi, &state, NULL, NULL, NULL));
	return state;
}

void becomes(VIP_VI_HANDLE vi, VIP_VI_STATE state)
{
	double start = seconds();
	while (state_of(vi) != state && seconds() - start < 20)
		pause_ms(1);
	CHECK(state_of(vi) == state);
}

static int wanted(const char *name, int count, char **names)
{
	if (count == 0)
		return 1;
	for (int i = 0; i < count; i++)
		if (strcmp(name, names[i]) == 0)
			return 1;
	return 0;
}

int main(int count, char **arguments)
{
	int pairing = count > 1 && (!strcmp(arguments[1], "active") || !strcmp(arguments[1], "passive"));
	program = arguments[0];
	/* A call that hangs is a failure, and says where. */
	alarm(pairing ? 280 : 240);
	if (count > 2 && !strcmp(arguments[1], "stay"))
		return stay(arguments[2]);
	if (pairing) {
		pair(!strcmp(arguments[1], "active"), count > 2 ? arguments[2] : NULL);
	} else {
		for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
			double start = seconds();
			if (!wanted(tests[i].name, count - 1, arguments + 1))
				continue;
			current = tests[i].name;
			open_side(&a, NULL);
			open_side(&b, NULL);
			tests[i].run();
			close_side(&a);
			close_side(&b);
			printf("%-16s %.2f s\n", tests[i].name, seconds() - start);
			fflush(stdout);
		}
	}
	printf("%d checks, %d failed\n", checks, failures);
	return failures != 0;
}
