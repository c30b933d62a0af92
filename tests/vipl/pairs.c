/*
 * Two processes, perhaps on two machines: both go through the same list. One connects to the other by name, by each way and
 * at each level; what one sends the other expects.
 */
#include "check.h"

enum { BIG = 1 << 20 };

static const VIP_RELIABILITY_LEVEL levels[] = {
    VIP_SERVICE_UNRELIABLE, VIP_SERVICE_RELIABLE_DELIVERY, VIP_SERVICE_RELIABLE_RECEPTION};

/* A descriptor that is posted, where it lies. */
static VIP_DESCRIPTOR *posted(int n)
{
	return (VIP_DESCRIPTOR *)(a.memory + (size_t)n * STRIDE);
}

/* Where the other one's memory is. */
struct where {
	VIP_UINT64 base;
	VIP_MEM_HANDLE handle;
};

static VIP_NET_ADDRESS *other(const char *host, const char *point)
{
	static char room[ADDRESS_BYTES + 8] __attribute__((aligned(8)));
	VIP_NET_ADDRESS *address = (VIP_NET_ADDRESS *)room;
	MUST(VipNSGetHostByName(a.nic, (char *)host, address, 0));
	address->DiscriminatorLen = (VIP_UINT16)strlen(point);
	memcpy(address->HostAddress + address->HostAddressLen, point, strlen(point));
	return address;
}

static void connect_client(const char *host, const char *point)
{
	VIP_RETURN code;
	double start = seconds();
	do
		code = VipConnectRequest(a.vi, address(&a, "client"), other(host, point), LONG, NULL);
	while (code == VIP_NO_MATCH && seconds() - start < 60);
	MUST(code);
}

static void connect_server(const char *point)
{
	char from[ADDRESS_BYTES] __attribute__((aligned(8)));
	VIP_CONN_HANDLE connection;
	VIP_VI_ATTRIBUTES remote;
	MUST(VipConnectWait(a.nic, address(&a, point), 60000, (VIP_NET_ADDRESS *)from, &remote, &connection));
	MUST(VipConnectAccept(connection, a.vi));
}

/* Answers what comes, in order; for the active side. */
static void ping(size_t size, int round)
{
	VIP_DESCRIPTOR *in = descriptor(&a, 0, 2 << 20, BIG), *out = descriptor(&a, 1, 0, size);
	fill(data(&a, 0), size, (unsigned)round);
	out->CS.Control = VIP_CONTROL_IMMEDIATE;
	out->CS.ImmediateData = (VIP_UINT32)round;
	post_recv(&a, in);
	post_send(&a, out);
	received(&a, in, RECEIVED | IMMEDIATE, (VIP_UINT32)size);
	CHECK(in->CS.ImmediateData == (VIP_UINT32)round);
	CHECK(is_filled(data(&a, 2 << 20), size, (unsigned)round + 1));
	sent(&a, out, DONE);
}

/* The passive side has a receive posted before the other one may send. */
static void pong(size_t size, int round)
{
	VIP_DESCRIPTOR *in = posted(round % 2 ? 2 : 3), *out = descriptor(&a, 1, 0, size);
	received(&a, in, RECEIVED | IMMEDIATE, (VIP_UINT32)size);
	CHECK(is_filled(data(&a, 2 << 20), size, (unsigned)round));
	post_recv(&a, descriptor(&a, round % 2 ? 3 : 2, 2 << 20, BIG));
	fill(data(&a, 0), size, (unsigned)round + 1);
	out->CS.Control = VIP_CONTROL_IMMEDIATE;
	out->CS.ImmediateData = (VIP_UINT32)round;
	post_send(&a, out);
	sent(&a, out, DONE);
}

static void messages(int active)
{
	static const size_t sizes[] = {0, 1, 100, 1500, 9000, 65536, BIG};
	int round = 0;
	for (int again = 0; again < 20; again++)
		for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++, round++)
			(active ? ping : pong)(sizes[i], round);
}

/* Both tell where their memory is, write there, and read it back. */
static void remote_memory(int active, VIP_RELIABILITY_LEVEL level)
{
	struct where mine = {(VIP_UINT64)data(&a, 0), a.handle}, theirs;
	/* All receives are posted before the other one can send: for its word, its write, its last message, and none. */
	VIP_DESCRIPTOR *in = active ? descriptor(&a, 4, 3 << 20, 64) : posted(3);
	VIP_DESCRIPTOR *out = descriptor(&a, 1, 0, sizeof mine), *write, *done = descriptor(&a, 5, 3 << 20, 64), *got;
	if (active)
		post_recv(&a, in);
	post_recv(&a, done);
	post_recv(&a, descriptor(&a, 8, 3 << 20, 10));
	post_recv(&a, descriptor(&a, 10, 3 << 20, 10));
	memcpy(data(&a, 0), &mine, sizeof mine);
	if (active) {
		post_send(&a, out);
		sent(&a, out, DONE);
	}
	RETURNS(VipRecvWait(a.vi, LONG, &got), VIP_SUCCESS);
	CHECK(got == in && got->CS.Length == sizeof theirs);
	memcpy(&theirs, in->DS[0].Local.Data.Address, sizeof theirs);
	if (!active) {
		post_send(&a, out);
		sent(&a, out, DONE);
	}
	fill(data(&a, 2 << 20), BIG, (unsigned)active);
	write = rdma(&a, 6, VIP_CONTROL_OP_RDMAWRITE | VIP_CONTROL_IMMEDIATE, 2 << 20, BIG, &a, 0);
	write->CS.ImmediateData = 77;
	write->DS[0].Remote.Data.AddressBits = theirs.base + 4096;
	write->DS[0].Remote.Handle = theirs.handle;
	post_send(&a, write);
	sent(&a, write, DONE | VIP_STATUS_OP_RDMA_WRITE);
	received(&a, done, DONE | VIP_STATUS_OP_REMOTE_RDMA_WRITE | IMMEDIATE, BIG);
	CHECK(done->CS.ImmediateData == 77);
	CHECK(is_filled(data(&a, 4096), BIG, (unsigned)!active));
	if (level == VIP_SERVICE_UNRELIABLE)
		return;
	VIP_DESCRIPTOR *read = rdma(&a, 7, VIP_CONTROL_OP_RDMAREAD, 4 << 20, BIG, &a, 0);
	read->DS[0].Remote = write->DS[0].Remote;
	post_send(&a, read);
	sent(&a, read, DONE | VIP_STATUS_OP_RDMA_READ);
	CHECK(is_filled(data(&a, 4 << 20), BIG, (unsigned)active));
}

/* One writes, the other polls the end of each write and calls nothing. */
static void flags(int active)
{
	enum { SLOTS = 8, STEP = 250000, BYTES = 240000, ROUNDS = 20, AT = 5 << 20 };
	struct where mine = {(VIP_UINT64)data(&a, AT), a.handle}, theirs;
	VIP_DESCRIPTOR *got, *out = descriptor(&a, 40, 3 << 20, sizeof mine), *in = descriptor(&a, 41, 3 << 20, 64);
	if (active) {
		post_recv(&a, in);
		post_recv(&a, descriptor(&a, 42, 3 << 20, 64));
		/* Now the other one may say where it is to be written to. */
		post_send(&a, descriptor(&a, 43, 0, 1));
		RETURNS(VipRecvWait(a.vi, LONG, &got), VIP_SUCCESS);
		CHECK(got == in);
		memcpy(&theirs, data(&a, 3 << 20), sizeof theirs);
		sent(&a, posted(43), DONE);
		for (unsigned round = 1; round <= ROUNDS; round++) {
			for (int n = 0; n < SLOTS; n++) {
				size_t at = AT + (size_t)n * STEP;
				fill(data(&a, at), BYTES, round + (unsigned)n);
				*(VIP_UINT64 *)data(&a, at + BYTES) = round;
				VIP_DESCRIPTOR *write =
				    rdma(&a, 44 + n, VIP_CONTROL_OP_RDMAWRITE, at, BYTES + sizeof(VIP_UINT64), &a, 0);
				write->DS[0].Remote.Data.AddressBits = theirs.base + (VIP_UINT64)n * STEP;
				write->DS[0].Remote.Handle = theirs.handle;
				post_send(&a, write);
			}
			for (int n = 0; n < SLOTS; n++)
				sent(&a, posted(44 + n), DONE | VIP_STATUS_OP_RDMA_WRITE);
			/* It has seen them all. */
			RETURNS(VipRecvWait(a.vi, LONG, &got), VIP_SUCCESS);
			if (round < ROUNDS)
				post_recv(&a, descriptor(&a, 41, 3 << 20, 64));
		}
		return;
	}
	VIP_DESCRIPTOR *go = posted(45);
	received(&a, go, RECEIVED, 1);
	memset(data(&a, AT), 0, SLOTS * STEP);
	memcpy(data(&a, 3 << 20), &mine, sizeof mine);
	post_send(&a, out);
	sent(&a, out, DONE);
	for (unsigned round = 1; round <= ROUNDS; round++) {
		/* Each as soon as its flag is there, in whatever order they come. */
		int seen[SLOTS] = {0}, left = SLOTS;
		double start = seconds();
		while (left && seconds() - start < 60)
			for (int n = 0; n < SLOTS; n++) {
				size_t at = AT + (size_t)n * STEP;
				volatile VIP_UINT64 *flag = (VIP_UINT64 *)data(&a, at + BYTES);
				if (seen[n] || *flag != round)
					continue;
				__sync_synchronize();
				CHECK(is_filled(data(&a, at), BYTES, round + (unsigned)n));
				seen[n] = 1;
				left--;
			}
		CHECK(left == 0);
		post_send(&a, descriptor(&a, 40, 3 << 20, 1));
		sent(&a, posted(40), DONE);
	}
}

void pair(int active, const char *host)
{
	open_side(&a, NULL);
	OK(VipNSInit(a.nic, NULL));
	for (int i = 0; i < 3; i++) {
		current = i == 0 ? "unreliable" : i == 1 ? "reliable delivery" : "reliable reception";
		a.vi = new_vi(&a, levels[i]);
		if (!active)
			post_recv(&a, descriptor(&a, 3, 2 << 20, BIG));
		/* 20 rounds of 7: the last receive that is posted is number 3 again. */
		if (active)
			connect_client(host, "pair");
		else
			connect_server("pair");
		messages(active);
		remote_memory(active, levels[i]);
		/* Both are through: a last message each. */
		VIP_DESCRIPTOR *out = descriptor(&a, 9, 0, 10);
		if (active) {
			post_send(&a, out);
			sent(&a, out, DONE);
			received(&a, posted(8), RECEIVED, 10);
			OK(VipDisconnect(a.vi));
		} else {
			received(&a, posted(8), RECEIVED, 10);
			post_send(&a, out);
			sent(&a, out, DONE);
			/* Then the other one disconnects. */
			received(&a, posted(10), RECEIVED | VIP_STATUS_DESC_FLUSHED_ERROR, 0);
			told(&a, VIP_RESOURCE_VI, VIP_ERROR_CONN_LOST);
			OK(VipDisconnect(a.vi));
		}
		drain(a.vi);
		OK(VipDestroyVi(a.vi));
	}
	current = "flags";
	a.vi = new_vi(&a, VIP_SERVICE_RELIABLE_DELIVERY);
	if (active) {
		connect_client(host, "flags");
	} else {
		post_recv(&a, descriptor(&a, 45, 3 << 20, 64));
		connect_server("flags");
	}
	flags(active);
	if (!active)
		told(&a, VIP_RESOURCE_VI, VIP_ERROR_CONN_LOST);
	OK(VipDisconnect(a.vi));
	drain(a.vi);
	OK(VipDestroyVi(a.vi));
	/* As peers, the name of the other one known to one side only: the passive one has learned it by then. */
	current = "refused";
	a.vi = new_vi(&a, VIP_SERVICE_RELIABLE_DELIVERY);
	VIP_DESCRIPTOR *in = descriptor(&a, 0, 0, 10), *out = descriptor(&a, 1, 0, 10);
	post_recv(&a, in);
	if (active) {
		VIP_RETURN code;
		do
			code = VipConnectRequest(a.vi, address(&a, "client"), other(host, "refused"), LONG, NULL);
		while (code == VIP_NO_MATCH);
		RETURNS(code, VIP_REJECT);
	} else {
		char from[ADDRESS_BYTES] __attribute__((aligned(8)));
		VIP_CONN_HANDLE connection;
		VIP_VI_ATTRIBUTES remote;
		VIP_NET_ADDRESS *back = (VIP_NET_ADDRESS *)from;
		MUST(VipConnectWait(a.nic, address(&a, "refused"), 60000, back, &remote, &connection));
		OK(VipConnectReject(connection));
		/* And the other way around. */
		current = "peers";
		back->DiscriminatorLen = 4;
		memcpy(back->HostAddress + 6, "left", 4);
		OK(VipConnectPeerRequest(a.vi, address(&a, "right"), back, LONG));
	}
	current = "peers";
	if (active)
		OK(VipConnectPeerRequest(a.vi, address(&a, "left"), other(host, "right"), LONG));
	OK(VipConnectPeerWait(a.vi, NULL));
	CHECK(state_of(a.vi) == VIP_STATE_CONNECTED);
	/* Whoever disconnects first, the other one has seen that it is connected. */
	post_send(&a, out);
	received(&a, in, RECEIVED, 10);
	OK(VipDisconnect(a.vi));
	drain(a.vi);
	OK(VipDestroyVi(a.vi));
	OK(VipNSShutdown(a.nic));
	close_side(&a);
}
