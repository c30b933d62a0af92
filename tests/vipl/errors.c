/* Descriptors that are wrong, messages that do not fit, connections that end. */
#include "check.h"

/* What is wrong with a descriptor. */
enum wrong { OPERATION, RESERVED, TOO_MANY, NO_ADDRESS, READ_IMMEDIATE, MEMORY, BEYOND, OTHER_TAG, TOO_LONG, SEGMENTS, WRONGS };

static VIP_DESCRIPTOR *spoil(int wrong, VIP_UINT32 *status, VIP_MEM_HANDLE other)
{
	VIP_DESCRIPTOR *d = descriptor(&a, 1, 0, 100);
	*status = VIP_STATUS_FORMAT_ERROR;
	switch (wrong) {
	case OPERATION:
		d->CS.Control = VIP_CONTROL_OP_RESERVED;
		break;
	case RESERVED:
		d->CS.Control = 0x100;
		break;
	case TOO_MANY:
		d->CS.SegCount = 254;
		break;
	case NO_ADDRESS:
		d->CS.Control = VIP_CONTROL_OP_RDMAWRITE;
		d->CS.SegCount = 0;
		*status |= VIP_STATUS_OP_RDMA_WRITE;
		break;
	case READ_IMMEDIATE:
		d = rdma(&a, 1, VIP_CONTROL_OP_RDMAREAD | VIP_CONTROL_IMMEDIATE, 0, 10, &b, 0);
		*status |= VIP_STATUS_OP_RDMA_READ;
		break;
	case MEMORY:
		d->DS[0].Local.Handle ^= 0x10000;
		*status = VIP_STATUS_PROTECTION_ERROR;
		break;
	case BEYOND:
		d->DS[0].Local.Data.Address = a.memory + MEMORY_BYTES - 99;
		*status = VIP_STATUS_PROTECTION_ERROR;
		break;
	case OTHER_TAG:
		d->DS[0].Local.Handle = other;
		*status = VIP_STATUS_PROTECTION_ERROR;
		break;
	case TOO_LONG:
		d->DS[0].Local.Length = TRANSFER + 1;
		*status = VIP_STATUS_LENGTH_ERROR;
		break;
	case SEGMENTS:
		/* They would lie behind the memory. */
		d = (VIP_DESCRIPTOR *)(a.memory + MEMORY_BYTES - 64);
		memset(d, 0, 64);
		d->CS.SegCount = 3;
		*status = VIP_STATUS_PROTECTION_ERROR;
		break;
	}
	return d;
}

void test_descriptors(void)
{
	VIP_PROTECTION_HANDLE tag;
	VIP_MEM_HANDLE other;
	OK(VipCreatePtag(a.nic, &tag));
	VIP_MEM_ATTRIBUTES unlike = {tag, VIP_FALSE, VIP_FALSE};
	OK(VipRegisterMem(a.nic, a.memory, MEMORY_BYTES, &unlike, &other));
	for (VIP_RELIABILITY_LEVEL level = 1; level <= 4; level *= 2)
		for (int wrong = 0; wrong < WRONGS; wrong++) {
			VIP_UINT32 status;
			connect_both(level);
			VIP_DESCRIPTOR *good = descriptor(&a, 0, 0, 10), *in = descriptor(&b, 0, 0, 10);
			VIP_DESCRIPTOR *in2 = descriptor(&b, 1, 0, 10), *after = descriptor(&a, 2, 0, 10);
			post_recv(&b, in);
			post_recv(&b, in2);
			VIP_DESCRIPTOR *bad = spoil(wrong, &status, other);
			post_send(&a, good);
			post_send(&a, bad);
			post_send(&a, after);
			sent(&a, good, DONE);
			sent(&a, bad, DONE | status);
			received(&b, in, RECEIVED, 10);
			if (level == VIP_SERVICE_UNRELIABLE) {
				sent(&a, after, DONE);
				received(&b, in2, RECEIVED, 10);
				CHECK(state_of(a.vi) == VIP_STATE_CONNECTED);
			} else {
				/* What comes after it is flushed, on both sides. */
				sent(&a, after, DONE | VIP_STATUS_DESC_FLUSHED_ERROR);
				VIP_ERROR_DESCRIPTOR error = told(&a, VIP_RESOURCE_DESCRIPTOR, VIP_ERROR_POST_DESC);
				CHECK(error.DescriptorPtr == bad);
				CHECK(state_of(a.vi) == VIP_STATE_ERROR);
				told(&b, VIP_RESOURCE_VI, VIP_ERROR_CONN_LOST);
				received(&b, in2, RECEIVED | VIP_STATUS_DESC_FLUSHED_ERROR, 0);
				/* And so is everything that is posted now. */
				post_send(&a, after);
				sent(&a, after, DONE | VIP_STATUS_DESC_FLUSHED_ERROR);
				VIP_DESCRIPTOR *late = descriptor(&a, 3, 0, 10);
				post_recv(&a, late);
				received(&a, late, RECEIVED | VIP_STATUS_DESC_FLUSHED_ERROR, 0);
			}
			part_both();
		}
	/* Receives. */
	for (int wrong = OPERATION; wrong <= OTHER_TAG; wrong++) {
		VIP_UINT32 status;
		/* What is placed counts there: test_past_memory. */
		if (wrong == BEYOND)
			continue;
		connect_both(VIP_SERVICE_RELIABLE_DELIVERY);
		VIP_DESCRIPTOR *bad = spoil(wrong, &status, other);
		post_recv(&a, bad);
		received(&a, bad, RECEIVED | (status & VIP_STATUS_ERROR_MASK), 0);
		told(&a, VIP_RESOURCE_DESCRIPTOR, VIP_ERROR_POST_DESC);
		told(&b, VIP_RESOURCE_VI, VIP_ERROR_CONN_LOST);
		part_both();
	}
	/* Not where descriptors may be: nothing is posted. */
	connect_both(VIP_SERVICE_RELIABLE_DELIVERY);
	VIP_DESCRIPTOR *d = descriptor(&a, 0, 0, 10), *got;
	static char elsewhere[128] __attribute__((aligned(64)));
	BAD(VipPostSend(a.vi, NULL, a.handle));
	BAD(VipPostRecv(a.vi, NULL, a.handle));
	BAD(VipPostSend(a.vi, (VIP_DESCRIPTOR *)((char *)d + 32), a.handle));
	BAD(VipPostSend(a.vi, (VIP_DESCRIPTOR *)elsewhere, a.handle));
	BAD(VipPostSend(a.vi, d, a.handle ^ 0x10000));
	BAD(VipPostSend(a.vi, d, 0));
	BAD(VipPostSend(a.vi, d, other));
	BAD(VipPostRecv(a.vi, d, other));
	BAD(VipPostSend(NOTHING, d, a.handle));
	BAD(VipPostRecv(NOTHING, d, a.handle));
	RETURNS(VipSendDone(a.vi, &got), VIP_DESCRIPTOR_ERROR);
	CHECK(got == NULL && state_of(a.vi) == VIP_STATE_CONNECTED);
	part_both();
	/* To send needs a connection. */
	a.vi = new_vi(&a, VIP_SERVICE_RELIABLE_DELIVERY);
	post_send(&a, d);
	sent(&a, d, DONE | VIP_STATUS_DESC_FLUSHED_ERROR);
	CHECK(state_of(a.vi) == VIP_STATE_IDLE);
	OK(VipDestroyVi(a.vi));
	OK(VipDeregisterMem(a.nic, a.memory, other));
	OK(VipDestroyPtag(a.nic, tag));
}

/* A message that is longer than the receive that it takes. */
void test_lengths(void)
{
	static const size_t sizes[] = {101, 3000, 300000};
	for (VIP_RELIABILITY_LEVEL level = 1; level <= 4; level *= 2)
		for (int i = 0; i < 3; i++) {
			connect_both(level);
			VIP_DESCRIPTOR *in = descriptor(&b, 0, 0, 100), *next = descriptor(&b, 1, 1000, 100);
			VIP_DESCRIPTOR *out = descriptor(&a, 0, 0, sizes[i]), *after = descriptor(&a, 1, 0, 10);
			memset(data(&b, 0), 5, 1000);
			post_recv(&b, in);
			post_recv(&b, next);
			post_send(&a, out);
			VIP_DESCRIPTOR *got;
			RETURNS(VipRecvWait(b.vi, LONG, &got), VIP_DESCRIPTOR_ERROR);
			CHECK(got == in && in->CS.Status == (RECEIVED | VIP_STATUS_LENGTH_ERROR));
			CHECK(data(&b, 100)[0] == 5);
			if (level == VIP_SERVICE_UNRELIABLE) {
				sent(&a, out, DONE);
				post_send(&a, after);
				sent(&a, after, DONE);
				received(&b, next, RECEIVED, 10);
			} else {
				told(&b, VIP_RESOURCE_DESCRIPTOR, VIP_ERROR_POST_DESC);
				received(&b, next, RECEIVED | VIP_STATUS_DESC_FLUSHED_ERROR, 0);
				if (level == VIP_SERVICE_RELIABLE_RECEPTION)
					sent(&a, out, DONE | VIP_STATUS_REMOTE_DESC_ERROR);
				told(&a, VIP_RESOURCE_VI, VIP_ERROR_CONN_LOST);
				CHECK(state_of(a.vi) == VIP_STATE_ERROR && state_of(b.vi) == VIP_STATE_ERROR);
			}
			part_both();
		}
}

/* Receives whose segments run past their memory, as programs post that have one length for all: what is placed counts. */
void test_past_memory(void)
{
	enum { THERE = 99, MORE = 1000 };
	for (VIP_RELIABILITY_LEVEL level = 1; level <= 4; level *= 2)
		for (int second = 0; second < 2; second++) {
			size_t room = THERE + (second ? MORE : 0);
			connect_both(level);
			VIP_DESCRIPTOR *in = descriptor(&b, 0, 0, MORE), *out = descriptor(&a, 0, 0, room);
			VIP_DESCRIPTOR *bad = descriptor(&b, 1, 0, MORE), *more = descriptor(&a, 1, 0, room + 1);
			for (int i = 0; i < 2; i++) {
				VIP_DESCRIPTOR *d = i ? bad : in;
				/* Perhaps behind a segment that is all there; and one behind it that would be. */
				VIP_DATA_SEGMENT *at = &d->DS[second].Local;
				d->DS[1] = d->DS[0];
				d->DS[2] = d->DS[0];
				at->Data.Address = b.memory + MEMORY_BYTES - THERE;
				d->CS.SegCount = (VIP_UINT16)(second + 2);
				post_recv(&b, d);
			}
			fill(data(&a, 0), room + 1, 3);
			post_send(&a, out);
			sent(&a, out, DONE);
			received(&b, in, RECEIVED, (VIP_UINT32)room);
			CHECK(is_filled(b.memory + MEMORY_BYTES - THERE, THERE, 3) || second);
			CHECK(memcmp(b.memory + MEMORY_BYTES - THERE, data(&a, room - THERE), THERE) == 0);
			post_send(&a, more);
			VIP_DESCRIPTOR *got;
			RETURNS(VipRecvWait(b.vi, LONG, &got), VIP_DESCRIPTOR_ERROR);
			CHECK(got == bad && bad->CS.Status == (RECEIVED | VIP_STATUS_PROTECTION_ERROR));
			if (level == VIP_SERVICE_UNRELIABLE)
				sent(&a, more, DONE);
			else
				told(&b, VIP_RESOURCE_DESCRIPTOR, VIP_ERROR_POST_DESC);
			part_both();
		}
}

/* A message from one VI to another. */
static void overtake(VIP_VI_HANDLE from, VIP_VI_HANDLE to)
{
	VIP_DESCRIPTOR *in = descriptor(&b, 4, 4096, 10), *out = descriptor(&a, 4, 4096, 10), *got;
	MUST(VipPostRecv(to, in, b.handle));
	MUST(VipPostSend(from, out, a.handle));
	OK(VipRecvWait(to, LONG, &got));
	OK(VipSendWait(from, LONG, &got));
}

/* A message for which no receive is posted. */
void test_no_receive(void)
{
	static const size_t sizes[] = {0, 100, 300000};
	for (VIP_RELIABILITY_LEVEL level = 1; level <= 4; level *= 2)
		for (int i = 0; i < 3; i++) {
			connect_both(level);
			VIP_DESCRIPTOR *out = descriptor(&a, 0, 0, sizes[i]), *in = descriptor(&b, 0, 0, 100);
			VIP_VI_HANDLE beside_a = new_vi(&a, level), beside_b = new_vi(&b, level);
			join(beside_a, beside_b);
			post_send(&a, out);
			if (level == VIP_SERVICE_UNRELIABLE) {
				/* It is lost, and the next one is not. Whoever has what was sent after it has seen it. */
				sent(&a, out, DONE);
				overtake(beside_a, beside_b);
				VIP_DESCRIPTOR *after = descriptor(&a, 1, 0, 10);
				post_recv(&b, in);
				post_send(&a, after);
				sent(&a, after, DONE);
				received(&b, in, RECEIVED, 10);
			} else {
				/* Though this side does not call. */
				told(&b, VIP_RESOURCE_VI, VIP_ERROR_RECVQ_EMPTY);
				CHECK(state_of(b.vi) == VIP_STATE_ERROR);
				if (level == VIP_SERVICE_RELIABLE_RECEPTION)
					sent(&a, out, DONE | VIP_STATUS_REMOTE_DESC_ERROR);
				told(&a, VIP_RESOURCE_VI, VIP_ERROR_CONN_LOST);
				becomes(a.vi, VIP_STATE_ERROR);
			}
			OK(VipDisconnect(beside_a));
			OK(VipDisconnect(beside_b));
			OK(VipDestroyVi(beside_a));
			OK(VipDestroyVi(beside_b));
			part_both();
		}
}

void test_disconnect(void)
{
	for (VIP_RELIABILITY_LEVEL level = 1; level <= 4; level *= 2) {
		connect_both(level);
		/* What was sent before is received; what is left is flushed. */
		VIP_DESCRIPTOR *in[4], *own[2];
		for (int n = 0; n < 4; n++)
			post_recv(&b, in[n] = descriptor(&b, n, (size_t)n * 300000, 300000));
		for (int n = 0; n < 2; n++)
			post_recv(&a, own[n] = descriptor(&a, 10 + n, (size_t)(n + 3) * 300000, 300000));
		for (int n = 0; n < 2; n++) {
			VIP_DESCRIPTOR *out = descriptor(&a, n, 0, n ? 250000 : 10);
			fill(data(&a, 0), 250000, 6);
			post_send(&a, out);
			sent(&a, out, DONE);
		}
		OK(VipDisconnect(a.vi));
		received(&a, own[0], RECEIVED | VIP_STATUS_DESC_FLUSHED_ERROR, 0);
		received(&a, own[1], RECEIVED | VIP_STATUS_DESC_FLUSHED_ERROR, 0);
		received(&b, in[0], RECEIVED, 10);
		received(&b, in[1], RECEIVED, 250000);
		CHECK(is_filled(data(&b, 300000), 250000, 6));
		received(&b, in[2], RECEIVED | VIP_STATUS_DESC_FLUSHED_ERROR, 0);
		received(&b, in[3], RECEIVED | VIP_STATUS_DESC_FLUSHED_ERROR, 0);
		told(&b, VIP_RESOURCE_VI, VIP_ERROR_CONN_LOST);
		CHECK(state_of(a.vi) == VIP_STATE_IDLE && state_of(b.vi) == VIP_STATE_ERROR);
		part_both();
	}
	/* Sends that nobody takes are flushed as well, and their memory is ours again. */
	connect_both(VIP_SERVICE_RELIABLE_RECEPTION);
	VIP_DESCRIPTOR *out[3], *got;
	for (int n = 0; n < 3; n++)
		post_send(&a, out[n] = descriptor(&a, n, 0, TRANSFER));
	OK(VipDisconnect(a.vi));
	for (int n = 0; n < 3; n++) {
		RETURNS(VipSendDone(a.vi, &got), VIP_DESCRIPTOR_ERROR);
		CHECK(got == out[n] && out[n]->CS.Status & VIP_STATUS_ERROR_MASK);
	}
	part_both();
}

/* Memory that is given up while descriptors use it. */
void test_deregister(void)
{
	for (VIP_RELIABILITY_LEVEL level = 1; level <= 4; level *= 2) {
		VIP_MEM_ATTRIBUTES own = {b.tag, VIP_FALSE, VIP_FALSE};
		VIP_MEM_HANDLE handle;
		connect_both(level);
		OK(VipRegisterMem(b.nic, data(&b, 0), 4096, &own, &handle));
		VIP_DESCRIPTOR *in = descriptor(&b, 0, 0, 4096), *next = descriptor(&b, 1, 8192, 4096);
		in->DS[0].Local.Handle = handle;
		memset(data(&b, 0), 3, 4096);
		post_recv(&b, in);
		post_recv(&b, next);
		OK(VipDeregisterMem(b.nic, data(&b, 0), handle));
		received(&b, in, RECEIVED | VIP_STATUS_PROTECTION_ERROR, 0);
		VIP_DESCRIPTOR *out = descriptor(&a, 0, 0, 100);
		memset(data(&a, 0), 4, 100);
		if (level == VIP_SERVICE_UNRELIABLE) {
			post_send(&a, out);
			sent(&a, out, DONE);
			received(&b, next, RECEIVED, 100);
		} else {
			told(&b, VIP_RESOURCE_DESCRIPTOR, VIP_ERROR_POST_DESC);
			received(&b, next, RECEIVED | VIP_STATUS_DESC_FLUSHED_ERROR, 0);
			told(&a, VIP_RESOURCE_VI, VIP_ERROR_CONN_LOST);
		}
		CHECK(data(&b, 0)[0] == 3);
		part_both();
	}
}
