/* RDMA: writes, reads, fences, and what protects the memory. */
#include "check.h"

void test_writes(void)
{
	static const size_t sizes[] = {0, 1, 1400, 70000, 1 << 20};
	for (VIP_RELIABILITY_LEVEL level = 1; level <= 4; level *= 2) {
		connect_both(level);
		for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
			size_t size = sizes[i];
			fill(data(&a, 0), size, i + 1);
			memset(data(&b, 0), 0, size + 100);
			/* It takes no receive, and the message behind it comes when it is there. */
			VIP_DESCRIPTOR *in = descriptor(&b, 0, 2 << 20, 100), *out = descriptor(&a, 1, 2 << 20, 4);
			VIP_DESCRIPTOR *write = rdma(&a, 0, VIP_CONTROL_OP_RDMAWRITE, 0, size, &b, 50);
			post_recv(&b, in);
			post_send(&a, write);
			post_send(&a, out);
			received(&b, in, RECEIVED, 4);
			CHECK(is_filled(data(&b, 50), size, i + 1));
			CHECK(data(&b, 50 + size)[0] == 0);
			sent(&a, write, DONE | VIP_STATUS_OP_RDMA_WRITE);
			sent(&a, out, DONE);
			/* With immediate data it takes one. */
			memset(data(&b, 0), 0, size + 100);
			in = descriptor(&b, 0, 2 << 20, 100);
			write = rdma(&a, 0, VIP_CONTROL_OP_RDMAWRITE | VIP_CONTROL_IMMEDIATE, 0, size, &b, 50);
			write->CS.ImmediateData = 0x80000001;
			post_recv(&b, in);
			post_send(&a, write);
			received(&b, in, DONE | VIP_STATUS_OP_REMOTE_RDMA_WRITE | IMMEDIATE, (VIP_UINT32)size);
			CHECK(in->CS.ImmediateData == 0x80000001);
			CHECK(is_filled(data(&b, 50), size, i + 1));
			sent(&a, write, DONE | VIP_STATUS_OP_RDMA_WRITE);
		}
		/* In the order of posts: receives go to sends and writes alike. */
		enum { COUNT = 12 };
		VIP_DESCRIPTOR *in[COUNT], *out[COUNT];
		for (int n = 0; n < COUNT; n++) {
			in[n] = descriptor(&b, n, (size_t)n * 4096, 4096);
			post_recv(&b, in[n]);
		}
		for (int n = 0; n < COUNT; n++) {
			int write = n % 3 != 0 && level != VIP_SERVICE_UNRELIABLE;
			if (write)
				out[n] = rdma(&a, n, VIP_CONTROL_OP_RDMAWRITE, 0, 50000, &b, 1 << 20);
			else
				out[n] = descriptor(&a, n, 0, 4000);
			out[n]->CS.Control |= VIP_CONTROL_IMMEDIATE;
			out[n]->CS.ImmediateData = (VIP_UINT32)n;
			post_send(&a, out[n]);
		}
		for (int n = 0; n < COUNT; n++) {
			int write = n % 3 != 0 && level != VIP_SERVICE_UNRELIABLE;
			received(&b, in[n], DONE | IMMEDIATE |
			    (write ? VIP_STATUS_OP_REMOTE_RDMA_WRITE : VIP_STATUS_OP_RECEIVE), write ? 50000 : 4000);
			CHECK(in[n]->CS.ImmediateData == (VIP_UINT32)n);
			sent(&a, out[n], write ? DONE | VIP_STATUS_OP_RDMA_WRITE : DONE);
		}
		part_both();
	}
}

void test_reads(void)
{
	static const size_t sizes[] = {0, 1, 1400, 70000, 1 << 20};
	for (VIP_RELIABILITY_LEVEL level = 2; level <= 4; level *= 2) {
		connect_both(level);
		for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
			size_t size = sizes[i];
			fill(data(&b, 50), size, i + 1);
			memset(data(&a, 0), 0, size + 1);
			VIP_DESCRIPTOR *read = rdma(&a, 0, VIP_CONTROL_OP_RDMAREAD, 0, size, &b, 50);
			post_send(&a, read);
			sent(&a, read, DONE | VIP_STATUS_OP_RDMA_READ);
			CHECK(is_filled(data(&a, 0), size, i + 1));
			CHECK(data(&a, size)[0] == 0);
		}
		/* Into several segments. */
		VIP_DESCRIPTOR *read = rdma(&a, 0, VIP_CONTROL_OP_RDMAREAD, 0, 3000, &b, 0);
		VIP_DESCRIPTOR_SEGMENT *at = &read->DS[0];
		fill(data(&b, 0), 5000, 9);
		at[2] = at[1];
		at[2].Local.Data.Address = data(&a, 10000);
		at[2].Local.Length = 2000;
		read->CS.SegCount = 3;
		post_send(&a, read);
		sent(&a, read, DONE | VIP_STATUS_OP_RDMA_READ);
		CHECK(memcmp(data(&a, 0), data(&b, 0), 3000) == 0);
		CHECK(memcmp(data(&a, 10000), data(&b, 3000), 2000) == 0);
		part_both();
	}
}

/* What was read is sent on: only once it is there. */
void test_fence(void)
{
	connect_both(VIP_SERVICE_RELIABLE_DELIVERY);
	enum { BYTES = 1 << 20 };
	for (unsigned round = 0; round < 5; round++) {
		fill(data(&b, 0), BYTES, round);
		memset(data(&a, 0), 0, BYTES);
		VIP_DESCRIPTOR *read = rdma(&a, 0, VIP_CONTROL_OP_RDMAREAD, 0, BYTES, &b, 0);
		VIP_DESCRIPTOR *out = descriptor(&a, 1, 0, BYTES), *after = descriptor(&a, 2, 0, 1);
		VIP_DESCRIPTOR *in = descriptor(&b, 0, 2 << 20, BYTES), *last = descriptor(&b, 1, 4 << 20, 1);
		post_recv(&b, in);
		post_recv(&b, last);
		out->CS.Control = VIP_CONTROL_QFENCE;
		post_send(&a, read);
		post_send(&a, out);
		post_send(&a, after);
		sent(&a, read, DONE | VIP_STATUS_OP_RDMA_READ);
		received(&b, in, RECEIVED, BYTES);
		received(&b, last, RECEIVED, 1);
		sent(&a, out, DONE);
		sent(&a, after, DONE);
		CHECK(is_filled(data(&b, 2 << 20), BYTES, round));
	}
	part_both();
}

enum trouble { NOT_OURS, BEYOND, NO_RIGHT, OTHER_TAG, FREED, NOT_ENABLED, TROUBLES };

/* What must not be reached is not, and both sides hear of it. */
void test_protection(void)
{
	for (int reading = 0; reading < 2; reading++)
		for (int trouble = 0; trouble < TROUBLES; trouble++)
			for (VIP_RELIABILITY_LEVEL level = 1; level <= 4; level *= 2) {
				if (reading && level == VIP_SERVICE_UNRELIABLE)
					continue;
				int operation = reading ? VIP_CONTROL_OP_RDMAREAD : VIP_CONTROL_OP_RDMAWRITE;
				VIP_UINT32 as = reading ? VIP_STATUS_OP_RDMA_READ : VIP_STATUS_OP_RDMA_WRITE;
				VIP_MEM_ATTRIBUTES shared = {b.tag, VIP_TRUE, VIP_TRUE};
				VIP_PROTECTION_HANDLE tag;
				VIP_MEM_HANDLE handle;
				OK(VipCreatePtag(b.nic, &tag));
				if (trouble == OTHER_TAG)
					shared.Ptag = tag;
				if (trouble == NO_RIGHT && reading)
					shared.EnableRdmaRead = VIP_FALSE;
				if (trouble == NO_RIGHT && !reading)
					shared.EnableRdmaWrite = VIP_FALSE;
				OK(VipRegisterMem(b.nic, data(&b, 0), 4096, &shared, &handle));
				a.vi = new_vi(&a, level);
				VIP_VI_ATTRIBUTES wanted = attributes(&b, level);
				if (trouble == NOT_ENABLED)
					wanted.EnableRdmaRead = wanted.EnableRdmaWrite = VIP_FALSE;
				MUST(VipCreateVi(b.nic, &wanted, NULL, NULL, &b.vi));
				join(a.vi, b.vi);
				memset(data(&b, 0), 7, 8192);
				memset(data(&a, 0), 9, 8192);
				VIP_DESCRIPTOR *d = rdma(&a, 0, operation, 0, 100, &b, trouble == BEYOND ? 4000 : 0);
				d->DS[0].Remote.Handle = trouble == NOT_OURS ? 0xdead : handle;
				if (trouble == FREED)
					OK(VipDeregisterMem(b.nic, data(&b, 0), handle));
				/* Behind it comes what is not to be delivered. */
				VIP_DESCRIPTOR *in = descriptor(&b, 0, 4096, 100);
				post_recv(&b, in);
				post_send(&a, d);
				sent(&a, d, DONE | as | VIP_STATUS_RDMA_PROT_ERROR);
				if (level == VIP_SERVICE_UNRELIABLE) {
					/* It ends nothing. */
					VIP_DESCRIPTOR *out = descriptor(&a, 1, 0, 10);
					post_send(&a, out);
					sent(&a, out, DONE);
					received(&b, in, RECEIVED, 10);
				} else {
					told(&b, VIP_RESOURCE_VI, reading ? VIP_ERROR_RDMAR_PROT : VIP_ERROR_RDMAW_PROT);
					told(&b, VIP_RESOURCE_VI, VIP_ERROR_CONN_LOST);
					received(&b, in, RECEIVED | VIP_STATUS_DESC_FLUSHED_ERROR, 0);
					CHECK(state_of(a.vi) == VIP_STATE_ERROR && state_of(b.vi) == VIP_STATE_ERROR);
				}
				int touched = 0;
				for (int i = 0; i < 4096; i++)
					touched |= reading ? data(&a, 0)[i] != 9 : data(&b, 0)[i] != 7;
				CHECK(!touched);
				part_both();
				if (trouble != FREED)
					OK(VipDeregisterMem(b.nic, data(&b, 0), handle));
				OK(VipDestroyPtag(b.nic, tag));
			}
}

/* The end of a write is polled, and nothing is waited for: all of it is there when its last word is. */
void test_flags(void)
{
	enum { SLOTS = 16, STEP = 250000 };
	static const size_t sizes[] = {8, 64, 1400, 4000, 20000, 70000, 240000};
	connect_both(VIP_SERVICE_RELIABLE_DELIVERY);
	for (unsigned round = 1; round <= 42; round++) {
		size_t size = sizes[round % (sizeof sizes / sizeof *sizes)];
		VIP_DESCRIPTOR *writes[SLOTS];
		memset(data(&b, 0), 0, SLOTS * STEP);
		for (int n = 0; n < SLOTS; n++) {
			size_t at = (size_t)n * STEP;
			fill(data(&a, at), size, round + (unsigned)n);
			/* Not zero, whatever it is filled with. */
			*(VIP_UINT64 *)data(&a, at + size) = round;
			writes[n] = rdma(&a, n, VIP_CONTROL_OP_RDMAWRITE, at, size + sizeof(VIP_UINT64), &b, at);
			post_send(&a, writes[n]);
		}
		double start = seconds();
		for (int n = 0; n < SLOTS; n++) {
			size_t at = (size_t)n * STEP;
			volatile VIP_UINT64 *flag = (VIP_UINT64 *)data(&b, at + size);
			while (*flag != round && seconds() - start < 60) {
				/* Both sides are this process: each is asked for something that does not come. */
				VIP_DESCRIPTOR *none;
				VipRecvDone(b.vi, &none);
				VipRecvDone(a.vi, &none);
			}
			__sync_synchronize();
			CHECK(is_filled(data(&b, at), size, round + (unsigned)n));
		}
		for (int n = 0; n < SLOTS; n++)
			sent(&a, writes[n], DONE | VIP_STATUS_OP_RDMA_WRITE);
	}
	part_both();
}

/* VIs and memory of the default tag, as programs for Giganet's cards have them. */
void test_default_tag(void)
{
	VIP_MEM_HANDLE plain, shared, tagged;
	VIP_MEM_ATTRIBUTES open = {NULL, VIP_TRUE, VIP_TRUE}, other = {b.tag, VIP_TRUE, VIP_TRUE};
	/* Registered before there is a VI of that tag, and after. */
	OK(VipRegisterMem(b.nic, data(&b, 0), 4096, &other, &tagged));
	OK(VipRegisterMem(a.nic, a.memory, MEMORY_BYTES, NULL, &plain));
	for (VIP_RELIABILITY_LEVEL level = 2; level <= 4; level *= 2) {
		VIP_VI_ATTRIBUTES wanted = attributes(&a, level);
		wanted.Ptag = NULL;
		MUST(VipCreateVi(a.nic, &wanted, NULL, NULL, &a.vi));
		MUST(VipCreateVi(b.nic, &wanted, NULL, NULL, &b.vi));
		join(a.vi, b.vi);
		OK(VipRegisterMem(b.nic, data(&b, 4096), 4096, &open, &shared));
		/* Descriptor and data in memory of either kind. */
		for (int kind = 0; kind < 2; kind++) {
			VIP_DESCRIPTOR *in = descriptor(&b, 0, 8192, 100), *out = descriptor(&a, 0, 0, 100), *got;
			VIP_MEM_HANDLE from = kind ? plain : a.handle;
			out->DS[0].Local.Handle = from;
			fill(data(&a, 0), 100, 7);
			post_recv(&b, in);
			MUST(VipPostSend(a.vi, out, from));
			OK(VipSendWait(a.vi, LONG, &got));
			received(&b, in, RECEIVED, 100);
		}
		/* Both kinds are written to and read, for the other side's VI has the default tag. */
		for (int kind = 0; kind < 2; kind++) {
			size_t at = kind ? 4096 : 0;
			VIP_DESCRIPTOR *write = rdma(&a, 1, VIP_CONTROL_OP_RDMAWRITE, 0, 100, &b, at);
			write->DS[0].Remote.Handle = kind ? shared : tagged;
			fill(data(&a, 0), 100, 8);
			post_send(&a, write);
			sent(&a, write, DONE | VIP_STATUS_OP_RDMA_WRITE);
			CHECK(is_filled(data(&b, at), 100, 8));
			VIP_DESCRIPTOR *read = rdma(&a, 2, VIP_CONTROL_OP_RDMAREAD, 500, 100, &b, at);
			read->DS[0].Remote.Handle = kind ? shared : tagged;
			post_send(&a, read);
			sent(&a, read, DONE | VIP_STATUS_OP_RDMA_READ);
			CHECK(is_filled(data(&a, 500), 100, 8));
		}
		OK(VipDeregisterMem(b.nic, data(&b, 4096), shared));
		part_both();
	}
	/* Memory without a tag serves VIs that have one, for what is sent and received. */
	connect_both(VIP_SERVICE_RELIABLE_DELIVERY);
	VIP_DESCRIPTOR *in = descriptor(&b, 0, 8192, 100), *out = descriptor(&a, 0, 0, 100), *got;
	out->DS[0].Local.Handle = plain;
	post_recv(&b, in);
	MUST(VipPostSend(a.vi, out, plain));
	OK(VipSendWait(a.vi, LONG, &got));
	received(&b, in, RECEIVED, 100);
	/* Memory that is gone is under no tag any more. */
	part_both();
	OK(VipDeregisterMem(b.nic, data(&b, 0), tagged));
	OK(VipDeregisterMem(a.nic, a.memory, plain));
}
