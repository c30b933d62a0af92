/* Messages: sizes, segments, immediate data, order, queues and completion queues. */
#include "check.h"

static const VIP_RELIABILITY_LEVEL levels[] = {
    VIP_SERVICE_UNRELIABLE, VIP_SERVICE_RELIABLE_DELIVERY, VIP_SERVICE_RELIABLE_RECEPTION};
enum { LEVELS = 3 };

void test_sizes(void)
{
	static const size_t sizes[] = {0, 1, 63, 64, 1400, 1500, 9000, 32768, 65536, 65537, 1 << 20, TRANSFER};
	for (int level = 0; level < LEVELS; level++) {
		connect_both(levels[level]);
		for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
			VIP_DESCRIPTOR *in = descriptor(&b, 0, 0, sizes[i] + 5), *out = descriptor(&a, 0, 0, sizes[i]);
			fill(data(&a, 0), sizes[i], i);
			memset(data(&b, 0), 0xee, sizes[i] + 5);
			post_recv(&b, in);
			post_send(&a, out);
			received(&b, in, RECEIVED, (VIP_UINT32)sizes[i]);
			sent(&a, out, DONE);
			CHECK(out->CS.Length == sizes[i]);
			CHECK(is_filled(data(&b, 0), sizes[i], i));
			CHECK(data(&b, sizes[i])[0] == 0xee);
			/* And back. */
			in = descriptor(&a, 1, 0, sizes[i]);
			out = descriptor(&b, 1, 0, sizes[i]);
			memset(data(&a, 0), 0, sizes[i]);
			post_recv(&a, in);
			post_send(&b, out);
			received(&a, in, RECEIVED, (VIP_UINT32)sizes[i]);
			sent(&b, out, DONE);
			CHECK(is_filled(data(&a, 0), sizes[i], i));
		}
		part_both();
	}
}

void test_segments(void)
{
	enum { PIECE = 37 };
	connect_both(VIP_SERVICE_RELIABLE_DELIVERY);
	static const int counts[] = {0, 1, 2, 3, 17, 252};
	for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
		int count = counts[i];
		VIP_DESCRIPTOR *in = descriptor(&b, 0, 0, 0), *out = descriptor(&a, 0, 0, 0);
		fill(data(&a, 0), (size_t)count * PIECE, 3);
		memset(data(&b, 0), 0, 300 * 100);
		in->CS.SegCount = out->CS.SegCount = (VIP_UINT16)count;
		/* There is room behind the two that the type has. */
		VIP_DESCRIPTOR_SEGMENT *at_a = &out->DS[0], *at_b = &in->DS[0];
		for (int n = 0; n < count; n++) {
			at_a[n].Local.Data.Address = data(&a, (size_t)n * PIECE);
			at_b[n].Local.Data.Address = data(&b, (size_t)n * 100);
			at_a[n].Local.Handle = a.handle;
			at_b[n].Local.Handle = b.handle;
			at_a[n].Local.Length = at_b[n].Local.Length = PIECE;
		}
		post_recv(&b, in);
		post_send(&a, out);
		received(&b, in, RECEIVED, (VIP_UINT32)(count * PIECE));
		sent(&a, out, DONE);
		for (int n = 0; n < count; n++)
			CHECK(memcmp(data(&a, (size_t)n * PIECE), data(&b, (size_t)n * 100), PIECE) == 0);
	}
	part_both();
}

void test_immediate(void)
{
	for (int level = 0; level < LEVELS; level++) {
		connect_both(levels[level]);
		VIP_DESCRIPTOR *in = descriptor(&b, 0, 0, 100), *out = descriptor(&a, 0, 0, 5);
		out->CS.Control = VIP_CONTROL_IMMEDIATE;
		out->CS.ImmediateData = 0xfedcba98;
		/* Of a receive the library ignores it. */
		in->CS.Control = VIP_CONTROL_IMMEDIATE;
		post_recv(&b, in);
		post_send(&a, out);
		received(&b, in, RECEIVED | IMMEDIATE, 5);
		CHECK(in->CS.ImmediateData == 0xfedcba98);
		sent(&a, out, DONE);
		/* With no data at all, and without it. */
		in = descriptor(&b, 0, 0, 100);
		out = descriptor(&a, 0, 0, 0);
		out->CS.SegCount = 0;
		out->CS.Control = VIP_CONTROL_IMMEDIATE;
		out->CS.ImmediateData = 0;
		post_recv(&b, in);
		post_send(&a, out);
		received(&b, in, RECEIVED | IMMEDIATE, 0);
		sent(&a, out, DONE);
		in = descriptor(&b, 0, 0, 100);
		out = descriptor(&a, 0, 0, 7);
		out->CS.ImmediateData = 7;
		post_recv(&b, in);
		post_send(&a, out);
		received(&b, in, RECEIVED, 7);
		CHECK(in->CS.ImmediateData == 0);
		sent(&a, out, DONE);
		part_both();
	}
}

/* Short and long ones in turn: each send takes one receive, in the order of posts, whatever ends first in the node. */
void test_order(void)
{
	enum { COUNT = 40 };
	static const size_t sizes[] = {200000, 10, 3000, 70000, 0};
	for (int level = 1; level < LEVELS; level++) {
		connect_both(levels[level]);
		VIP_DESCRIPTOR *in[COUNT], *out[COUNT];
		for (int n = 0; n < COUNT; n++) {
			in[n] = descriptor(&b, n, (size_t)n * 100000 / 8, 0);
			in[n]->DS[0].Local.Data.Address = data(&b, (size_t)(n % 30) * 204800);
			in[n]->DS[0].Local.Length = 200000;
			post_recv(&b, in[n]);
		}
		for (int n = 0; n < COUNT; n++) {
			size_t size = sizes[n % 5];
			out[n] = descriptor(&a, n, (size_t)(n % 5) * 204800, size);
			out[n]->CS.Control = VIP_CONTROL_IMMEDIATE;
			out[n]->CS.ImmediateData = (VIP_UINT32)n;
			if (n < 5)
				fill(data(&a, (size_t)n * 204800), size, (unsigned)n);
			post_send(&a, out[n]);
		}
		for (int n = 0; n < COUNT; n++) {
			size_t size = sizes[n % 5];
			received(&b, in[n], RECEIVED | IMMEDIATE, (VIP_UINT32)size);
			CHECK(in[n]->CS.ImmediateData == (VIP_UINT32)n);
			if (n >= 10)
				CHECK(is_filled(in[n]->DS[0].Local.Data.Address, size, (unsigned)n % 5));
			sent(&a, out[n], DONE);
		}
		part_both();
	}
}

void test_queues(void)
{
	VIP_DESCRIPTOR *got;
	VIP_BOOLEAN no_sends, no_receives;
	connect_both(VIP_SERVICE_RELIABLE_DELIVERY);
	got = NOTHING;
	RETURNS(VipRecvDone(b.vi, &got), VIP_DESCRIPTOR_ERROR);
	CHECK(got == NULL);
	RETURNS(VipSendWait(b.vi, LONG, &got), VIP_DESCRIPTOR_ERROR);
	RETURNS(VipRecvWait(b.vi, LONG, &got), VIP_DESCRIPTOR_ERROR);
	VIP_DESCRIPTOR *in = descriptor(&b, 0, 0, 100), *out = descriptor(&a, 0, 0, 100);
	post_recv(&b, in);
	got = NOTHING;
	RETURNS(VipRecvDone(b.vi, &got), VIP_NOT_DONE);
	double start = seconds();
	RETURNS(VipRecvWait(b.vi, 30, &got), VIP_TIMEOUT);
	CHECK(seconds() - start >= 0.029);
	RETURNS(VipRecvWait(b.vi, 0, &got), VIP_TIMEOUT);
	post_send(&a, out);
	/* Done while nobody asks, and still there. */
	sent(&a, out, DONE);
	VIP_RETURN code = VIP_NOT_DONE;
	UNTIL_BY(code != VIP_NOT_DONE, code = VipRecvDone(b.vi, &got));
	OK(code);
	CHECK(got == in);
	post_send(&a, out);
	OK(VipQueryVi(a.vi, NULL, NULL, &no_sends, &no_receives));
	CHECK(no_sends == VIP_FALSE && no_receives == VIP_TRUE);
	/* Nobody waited for that one. */
	told(&b, VIP_RESOURCE_VI, VIP_ERROR_RECVQ_EMPTY);
	part_both();
	/* As many as there may be, and one more. */
	a.vi = new_vi(&a, VIP_SERVICE_RELIABLE_DELIVERY);
	VIP_ULONG most = a.about.MaxDescriptorsPerQueue;
	for (VIP_ULONG n = 0; n < most; n++) {
		VIP_DESCRIPTOR *d = (VIP_DESCRIPTOR *)(a.memory + n * 64);
		memset(d, 0, sizeof *d);
		MUST(VipPostRecv(a.vi, d, a.handle));
	}
	RETURNS(VipPostRecv(a.vi, (VIP_DESCRIPTOR *)(a.memory + most * 64), a.handle), VIP_ERROR_RESOURCE);
	OK(VipDisconnect(a.vi));
	drain(a.vi);
	OK(VipDestroyVi(a.vi));
}

void test_cqs(void)
{
	VIP_CQ_HANDLE mixed, sends;
	VIP_VI_HANDLE vi = NULL;
	VIP_BOOLEAN receive = 7;
	VIP_VI_ATTRIBUTES wanted = attributes(&a, VIP_SERVICE_RELIABLE_DELIVERY);
	OK(VipCreateCQ(a.nic, 64, &mixed));
	OK(VipCreateCQ(a.nic, 1, &sends));
	CHECK(mixed != sends);
	MUST(VipCreateVi(a.nic, &wanted, sends, mixed, &a.vi));
	b.vi = new_vi(&b, VIP_SERVICE_RELIABLE_DELIVERY);
	join(a.vi, b.vi);
	/* A second VI that ends in the same queue. */
	VIP_VI_HANDLE first = a.vi, other_end = b.vi, second;
	MUST(VipCreateVi(a.nic, &wanted, mixed, mixed, &second));
	a.vi = second;
	b.vi = new_vi(&b, VIP_SERVICE_RELIABLE_DELIVERY);
	join(a.vi, b.vi);
	RETURNS(VipCQDone(mixed, &vi, &receive), VIP_NOT_DONE);
	RETURNS(VipCQWait(mixed, 20, &vi, &receive), VIP_TIMEOUT);

	VIP_DESCRIPTOR *in = descriptor(&a, 0, 0, 100), *in2 = descriptor(&a, 1, 1000, 100), *got;
	VIP_DESCRIPTOR *out = descriptor(&b, 0, 0, 100), *out2 = descriptor(&a, 2, 0, 50);
	MUST(VipPostRecv(second, in, a.handle));
	MUST(VipPostRecv(first, in2, a.handle));
	MUST(VipPostSend(b.vi, out, b.handle));
	OK(VipCQWait(mixed, LONG, &vi, &receive));
	CHECK(vi == second && receive == VIP_TRUE);
	OK(VipRecvDone(vi, &got));
	CHECK(got == in);
	OK(VipSendWait(b.vi, LONG, &got));
	MUST(VipPostSend(other_end, out, b.handle));
	VIP_RETURN code = VIP_NOT_DONE;
	UNTIL_BY(code != VIP_NOT_DONE, code = VipCQDone(mixed, &vi, &receive));
	OK(code);
	CHECK(vi == first && receive == VIP_TRUE);
	OK(VipRecvDone(vi, &got));
	CHECK(got == in2);
	/* Sends end in theirs. */
	VIP_DESCRIPTOR *in3 = descriptor(&b, 1, 0, 100);
	MUST(VipPostRecv(other_end, in3, b.handle));
	MUST(VipPostSend(first, out2, a.handle));
	OK(VipCQWait(sends, LONG, &vi, &receive));
	CHECK(vi == first && receive == VIP_FALSE);
	OK(VipSendDone(first, &got));
	CHECK(got == out2);
	RETURNS(VipCQDone(mixed, &vi, &receive), VIP_NOT_DONE);
	OK(VipRecvWait(other_end, LONG, &got));
	/* More than one entry of one queue. */
	for (int n = 0; n < 3; n++) {
		MUST(VipPostRecv(second, descriptor(&a, 4 + n, 0, 10), a.handle));
		MUST(VipPostSend(b.vi, descriptor(&b, 4 + n, 0, 10), b.handle));
	}
	for (int n = 0; n < 3; n++) {
		OK(VipCQWait(mixed, LONG, &vi, &receive));
		CHECK(vi == second);
		OK(VipRecvDone(vi, &got));
		CHECK(got == (void *)(a.memory + (size_t)(4 + n) * STRIDE));
		OK(VipSendWait(b.vi, LONG, &got));
	}
	OK(VipResizeCQ(mixed, 1));
	OK(VipResizeCQ(mixed, a.about.MaxCQEntries));
	BAD(VipResizeCQ(mixed, 0));
	RETURNS(VipResizeCQ(mixed, a.about.MaxCQEntries + 1), VIP_ERROR_RESOURCE);
	BAD(VipResizeCQ(NOTHING, 8));
	BAD(VipCreateCQ(a.nic, 0, &vi));
	RETURNS(VipCreateCQ(a.nic, a.about.MaxCQEntries + 1, &vi), VIP_ERROR_RESOURCE);
	BAD(VipCreateCQ(a.nic, 8, NULL));
	BAD(VipCreateCQ(NOTHING, 8, &vi));
	BAD(VipCQDone(NOTHING, &vi, &receive));
	BAD(VipCQWait(NOTHING, LONG, &vi, &receive));
	BAD(VipDestroyCQ(NOTHING));
	RETURNS(VipDestroyCQ(mixed), VIP_ERROR_RESOURCE);
	/* Flushed ones end there as well, and a queue is not made smaller than what is in it. */
	for (int n = 0; n < 3; n++)
		MUST(VipPostRecv(second, descriptor(&a, n, 0, 10), a.handle));
	part_both();
	for (int n = 0; n < 3; n++)
		RETURNS(VipCQDone(mixed, &vi, &receive), VIP_NOT_DONE);
	a.vi = first;
	b.vi = other_end;
	for (int n = 0; n < 3; n++)
		MUST(VipPostRecv(first, descriptor(&a, n, 0, 10), a.handle));
	OK(VipDisconnect(first));
	RETURNS(VipResizeCQ(mixed, 2), VIP_ERROR_RESOURCE);
	OK(VipCQDone(mixed, &vi, &receive));
	CHECK(vi == first && receive == VIP_TRUE);
	told(&b, VIP_RESOURCE_VI, VIP_ERROR_CONN_LOST);
	part_both();
	OK(VipDestroyCQ(mixed));
	OK(VipDestroyCQ(sends));
}
