/* What the tests of the VIPL face share: the world that most of them run in. */
#ifndef CHECK_H
#define CHECK_H

#include <pthread.h>

#include "vipl.h"

#define SUCCESS VIP_SUCCESS
#define CODE_NAME(code) code_name(code)

#include "../faces/check.h"

const char *code_name(VIP_RETURN code);

#define BAD(call) RETURNS(call, VIP_INVALID_PARAMETER)

/* A handle of no kind. */
#define NOTHING ((void *)0x1234)

enum {
	/* Bytes of an address with the longest discriminator. */
	ADDRESS_BYTES = 4 + 6 + 64,
	MEMORY_BYTES = 8 << 20,
	/* Descriptors lie before this, data behind it. */
	DATA = 1 << 20,
	/* From one descriptor to the next: room for all its segments. */
	STRIDE = 8192,
	TRANSFER = 4 << 20,
	/* Of a side, without a test that asks. */
	ERRORS_MAX = 64
};

/* One end: a NIC of its own, memory, and a VI of it. */
struct side {
	VIP_NIC_HANDLE nic;
	VIP_NIC_ATTRIBUTES about;
	VIP_PROTECTION_HANDLE tag;
	unsigned char *memory;
	VIP_MEM_HANDLE handle;
	VIP_VI_HANDLE vi;
	/* The errors that the handler was told of and no test has asked for yet, the first ones first. */
	VIP_ERROR_DESCRIPTOR errors[ERRORS_MAX];
	int error_count;
	pthread_mutex_t lock;
};
extern struct side a, b;

void open_side(struct side *side, const char *name);
void close_side(struct side *side);
VIP_VI_ATTRIBUTES attributes(const struct side *side, VIP_RELIABILITY_LEVEL level);
VIP_VI_HANDLE new_vi(struct side *side, VIP_RELIABILITY_LEVEL level);
/* An address of a side's NIC. */
VIP_NET_ADDRESS *address(const struct side *side, const char *discriminator);
/* Both VIs, new ones, connected at this level. */
void connect_both(VIP_RELIABILITY_LEVEL level);
void join(VIP_VI_HANDLE client, VIP_VI_HANDLE server);
/* And taken apart: what was posted is taken off the queues. */
void part_both(void);
void drain(VIP_VI_HANDLE vi);

/* The n-th descriptor of a side's memory, for one data segment at an offset behind DATA. */
VIP_DESCRIPTOR *descriptor(struct side *side, int n, size_t offset, size_t length);
/* The same for RDMA to or from an offset of the other side's data. */
VIP_DESCRIPTOR *rdma(struct side *side, int n, int operation, size_t offset, size_t length,
    struct side *other, size_t remote);
unsigned char *data(struct side *side, size_t offset);
void post_send(struct side *side, VIP_DESCRIPTOR *descriptor);
void post_recv(struct side *side, VIP_DESCRIPTOR *descriptor);
/* Waits for the next of a queue, which must be this one and have exactly this status. */
void sent(struct side *side, VIP_DESCRIPTOR *wanted, VIP_UINT32 status);
void received(struct side *side, VIP_DESCRIPTOR *wanted, VIP_UINT32 status, VIP_UINT32 length);
/* The next error that a side's handler is told of is this. Returns what it was told. */
VIP_ERROR_DESCRIPTOR told(struct side *side, VIP_RESOURCE_CODE resource, VIP_ERROR_CODE code);
/* Errors that it was told of and nobody has asked for. */
int untold(struct side *side);
/* Has errors told by `told` again, none of which are left over. No handler runs any more that was set before. */
void expect_errors(struct side *side);
VIP_VI_STATE state_of(VIP_VI_HANDLE vi);
/* Waits until it is so. */
void becomes(VIP_VI_HANDLE vi, VIP_VI_STATE state);

#define DONE VIP_STATUS_DONE
#define RECEIVED (VIP_STATUS_DONE | VIP_STATUS_OP_RECEIVE)
#define IMMEDIATE VIP_STATUS_IMMEDIATE

/* The tests. */
void test_layout(void);
void test_nics(void);
void test_tags(void);
void test_memory(void);
void test_vis(void);
void test_vi_attributes(void);
void test_names(void);
void test_connecting(void);
void test_requests(void);
void test_agreement(void);
void test_peers(void);
void test_discriminators(void);
void test_sizes(void);
void test_segments(void);
void test_immediate(void);
void test_order(void);
void test_queues(void);
void test_cqs(void);
void test_writes(void);
void test_reads(void);
void test_fence(void);
void test_protection(void);
void test_flags(void);
void test_default_tag(void);
void test_past_memory(void);
void test_giganet(void);
void test_descriptors(void);
void test_lengths(void);
void test_no_receive(void);
void test_disconnect(void);
void test_deregister(void);
void test_notify(void);
void test_errors(void);
void test_status_in_memory(void);
void test_wrong_handles(void);
void test_threads(void);
void test_many(void);
void test_killed_peer(void);
void test_stopped_door(void);
void test_fork(void);

/* pairs.c: two processes, perhaps on two machines. */
void pair(int active, const char *host);
/* One that connects, says so, and stays until it is ended. */
int stay(const char *discriminator);

#endif
