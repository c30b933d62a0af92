/*
 * Holds libvipl.so to VIA 1.0's VIPL, call by call.
 *
 *   conformance [TEST...]         in one process, on this machine
 *   conformance passive           waits for the other one
 *   conformance active HOST       the same things, between two processes: HOST is the other one's name or address
 *   conformance stay POINT        waits to be connected to, and stays until it is ended: for tests
 */
#include "check.h"

struct side a, b;

static const struct test tests[] = {
	{"layout", test_layout, 0},
	{"nics", test_nics, 0},
	{"tags", test_tags, 0},
	{"memory", test_memory, 0},
	{"vis", test_vis, 0},
	{"vi_attributes", test_vi_attributes, 0},
	{"names", test_names, 0},
	{"connecting", test_connecting, 0},
	{"requests", test_requests, 0},
	{"agreement", test_agreement, 0},
	{"peers", test_peers, 0},
	{"discriminators", test_discriminators, 0},
	{"sizes", test_sizes, 0},
	{"segments", test_segments, 0},
	{"immediate", test_immediate, 0},
	{"order", test_order, 0},
	{"queues", test_queues, 0},
	{"cqs", test_cqs, 0},
	{"writes", test_writes, 0},
	{"reads", test_reads, 0},
	{"fence", test_fence, 0},
	{"protection", test_protection, 0},
	{"flags", test_flags, 0},
	{"default_tag", test_default_tag, 0},
	{"past_memory", test_past_memory, 0},
	{"giganet", test_giganet, 0},
	{"descriptors", test_descriptors, 0},
	{"lengths", test_lengths, 0},
	{"no_receive", test_no_receive, 0},
	{"disconnect", test_disconnect, 0},
	{"deregister", test_deregister, 0},
	{"notify", test_notify, 0},
	{"errors", test_errors, 0},
	{"status_in_memory", test_status_in_memory, 0},
	{"wrong_handles", test_wrong_handles, 0},
	{"threads", test_threads, 0},
	{"many", test_many, 0},
	{"killed_peer", test_killed_peer, 0},
	{"stopped_door", test_stopped_door, 0},
	{"fork", test_fork, 0},
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

static void error_handler(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
{
	struct side *side = context;
	CHECK(error->NicHandle == side->nic);
	provoked("error", error->ErrorCode);
	pthread_mutex_lock(&side->lock);
	CHECK(side->error_count < ERRORS_MAX);
	if (side->error_count < ERRORS_MAX)
		side->errors[side->error_count++] = *error;
	pthread_mutex_unlock(&side->lock);
}

int untold(struct side *side)
{
	pthread_mutex_lock(&side->lock);
	int count = side->error_count;
	pthread_mutex_unlock(&side->lock);
	return count;
}

VIP_ERROR_DESCRIPTOR told(struct side *side, VIP_RESOURCE_CODE resource, VIP_ERROR_CODE code)
{
	VIP_ERROR_DESCRIPTOR error;
	memset(&error, 0xff, sizeof error);
	UNTIL(untold(side) != 0);
	pthread_mutex_lock(&side->lock);
	if (side->error_count) {
		error = side->errors[0];
		memmove(side->errors, side->errors + 1, (size_t)--side->error_count * sizeof error);
	}
	pthread_mutex_unlock(&side->lock);
	CHECK(error.ResourceCode == resource);
	CHECK(error.ErrorCode == code);
	if (error.ErrorCode != code || error.ResourceCode != resource)
		fprintf(stderr, "  in %s: resource %d, code %d\n", current, error.ResourceCode, error.ErrorCode);
	return error;
}

void expect_errors(struct side *side)
{
	OK(VipErrorCallback(side->nic, side, error_handler));
	pthread_mutex_lock(&side->lock);
	side->error_count = 0;
	pthread_mutex_unlock(&side->lock);
}

void open_side(struct side *side, const char *name)
{
	VIP_MEM_ATTRIBUTES shared;
	pthread_mutex_init(&side->lock, NULL);
	MUST(VipOpenNic(name, &side->nic));
	MUST(VipQueryNic(side->nic, &side->about));
	expect_errors(side);
	MUST(VipCreatePtag(side->nic, &side->tag));
	if (posix_memalign((void **)&side->memory, 4096, MEMORY_BYTES))
		exit(1);
	memset(side->memory, 0, MEMORY_BYTES);
	shared.Ptag = side->tag;
	shared.EnableRdmaWrite = shared.EnableRdmaRead = VIP_TRUE;
	MUST(VipRegisterMem(side->nic, side->memory, MEMORY_BYTES, &shared, &side->handle));
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

static void note_status(const VIP_DESCRIPTOR *descriptor)
{
	for (VIP_UINT32 bit = 1; bit <= VIP_STATUS_IMMEDIATE; bit <<= 1)
		if (descriptor->CS.Status & bit)
			provoked("status", bit);
}

static void drain_queue(VIP_VI_HANDLE vi, VIP_RETURN (*next)(VIP_VI_HANDLE vi, VIP_DESCRIPTOR **descriptor))
{
	VIP_DESCRIPTOR *descriptor;
	VIP_RETURN result;
	while ((result = next(vi, &descriptor)) == VIP_SUCCESS || (result == VIP_DESCRIPTOR_ERROR && descriptor))
		note_status(descriptor);
	CHECK(result == VIP_DESCRIPTOR_ERROR && !descriptor);
}

void drain(VIP_VI_HANDLE vi)
{
	drain_queue(vi, VipSendDone);
	drain_queue(vi, VipRecvDone);
}

void part_both(void)
{
	int connected = state_of(b.vi) == VIP_STATE_CONNECTED;
	OK(VipDisconnect(a.vi));
	if (connected)
		told(&b, VIP_RESOURCE_VI, VIP_ERROR_CONN_LOST);
	OK(VipDisconnect(b.vi));
	drain(a.vi);
	drain(b.vi);
	OK(VipDestroyVi(a.vi));
	OK(VipDestroyVi(b.vi));
	/* Of VIs that are gone nothing is told. */
	expect_errors(&a);
	expect_errors(&b);
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
	note_status(wanted);
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
	UNTIL(state_of(vi) == state);
}

static void around(const struct test *test, int before)
{
	(void)test;
	if (before) {
		open_side(&a, NULL);
		open_side(&b, NULL);
	} else {
		close_side(&a);
		close_side(&b);
	}
}

int main(int count, char **arguments)
{
	begin_program(arguments);
	if (count > 2 && !strcmp(arguments[1], "stay"))
		return stay(arguments[2]);
	if (count > 1 && (!strcmp(arguments[1], "active") || !strcmp(arguments[1], "passive")))
		pair(!strcmp(arguments[1], "active"), count > 2 ? arguments[2] : NULL);
	else
		run_tests(tests, sizeof tests / sizeof *tests, count - 1, arguments + 1, around, stdout);
	return end_program(stdout);
}
