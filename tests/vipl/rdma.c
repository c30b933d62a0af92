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
