/* Two nodes in one process, on one host or two (host.h): two domains, each with an endpoint, an address vector and a completion queue. */
#ifndef WORLD_H
#define WORLD_H

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "check.h"

/* As programs that were built with these headers ask. */
#define API FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION)
/* Longest time in seconds that anything here may take before it counts as lost. */
#define PATIENCE 20

struct side {
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
	/* The other side, and itself, in this side's address vector. */
	fi_addr_t peer, self;
};

struct world {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct side a, b;
};

struct options {
	uint64_t caps, tx_bind, rx_bind, tx_op_flags, rx_op_flags, av_flags;
	struct fi_cq_attr cq;
	enum fi_av_type av_type;
	/* Endpoints are made and bound, but not enabled. */
	int disabled;
};

double now(void);
struct fi_info *hints_new(void);
/* Ends the program if it cannot be opened: nothing else would make sense. */
void world_open(struct world *world, const struct options *options);
void world_close(struct world *world);
/* Progress on both sides until `side` has an entry, or the time is over (-FI_EAGAIN). */
ssize_t next(struct world *world, struct side *side, struct fi_cq_tagged_entry *entry);
/* Likewise, of an entry that tells of a failure; `entry` is what fi_cq_readerr gives. */
ssize_t next_error(struct world *world, struct side *side, struct fi_cq_err_entry *entry);
/* Progress on both sides for a while. */
void turn(struct world *world, double seconds);
/* Nothing comes within a while. */
void nothing(struct world *world, struct side *side);

void test_footprint(void);
void test_away(void);
void test_info(void);
void test_objects(void);
void test_addresses(void);
void test_places(void);
void test_flags(void);
void test_manual(void);
void test_events(void);
void test_messages(void);
void test_tagged(void);
void test_probing(void);
void test_completions(void);
void test_waiting(void);
void test_naps(void);
void test_memory(void);
void test_atomics(void);
void test_threads(void);
void test_failures(void);
void test_misuse(void);
void test_meeting(void);
void test_bounds(void);

#endif
