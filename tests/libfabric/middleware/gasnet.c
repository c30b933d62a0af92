/* GASNet-EX's ofi-conduit: an endpoint for remote memory, and one each for requests and replies, which take their messages in
 * buffers for several. Asked for anew for each kind, by the names that the first answer gave. */
#include "job.h"

enum { SEGMENT = 1 << 20, BUFFER = 64 << 10, LEAST = 4096 };
static unsigned char segment[SEGMENT], local[SEGMENT], buffers[2][BUFFER];

static struct fi_info *hints(void)
{
	struct fi_info *hints = fi_allocinfo();

	hints->caps = FI_RMA | FI_MSG | FI_MULTI_RECV;
	hints->mode = FI_CONTEXT;
	hints->addr_format = FI_FORMAT_UNSPEC;
	hints->tx_attr->op_flags = FI_DELIVERY_COMPLETE;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->threading = FI_THREAD_SAFE;
	hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
	hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
	hints->domain_attr->av_type = FI_AV_TABLE;
	hints->domain_attr->mr_mode = FI_MR_ALLOCATED | FI_MR_VIRT_ADDR | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
	return hints;
}

void gasnet(struct job *job)
{
	uint32_t version = FI_VERSION(1, 5);
	struct fi_info *info = job_info(version, hints()), *again;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_ep *rma, *am[2];
	struct fid_cq *tx, *rx[2];
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_NONE};
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
	struct fid_av *av;
	struct fid_mr *mr;
	struct fi_context contexts[2];
	size_t least = LEAST;

	/* These come together, or not at all: "basic", or "scalable". */
	int modes = info->domain_attr->mr_mode & (FI_MR_ALLOCATED | FI_MR_VIRT_ADDR | FI_MR_PROV_KEY);
	MUST(modes, 0);
	MUST(fi_fabric(info->fabric_attr, &fabric, NULL), 0);
	MUST(fi_domain(fabric, info, &domain, NULL), 0);
	for (int kind = 0; kind < 2; kind++) {
		struct fi_info *of = hints();

		of->fabric_attr->prov_name = strdup(info->fabric_attr->prov_name);
		of->domain_attr->name = strdup(info->domain_attr->name);
		of->caps = kind == 0 ? FI_RMA : FI_MSG | FI_MULTI_RECV;
		of->mode = kind == 0 ? 0 : FI_CONTEXT;
		again = job_info(version, of);
		if (kind == 0)
			MUST(fi_endpoint(domain, again, &rma, NULL), 0);
		for (int i = 0; i < 2 && kind == 1; i++)
			MUST(fi_endpoint(domain, again, &am[i], NULL), 0);
		fi_freeinfo(again);
	}
	MUST(fi_cq_open(domain, &cq_attr, &tx, NULL), 0);
	MUST(fi_ep_bind(rma, &tx->fid, FI_TRANSMIT | FI_RECV), 0);
	for (int i = 0; i < 2; i++) {
		MUST(fi_cq_open(domain, &cq_attr, &rx[i], NULL), 0);
		MUST(fi_ep_bind(am[i], &tx->fid, FI_TRANSMIT), 0);
		MUST(fi_ep_bind(am[i], &rx[i]->fid, FI_RECV), 0);
		MUST(fi_setopt(&am[i]->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, sizeof least), 0);
	}
	MUST(fi_av_open(domain, &av_attr, &av, NULL), 0);
	struct fid_ep *eps[] = {am[0], am[1], rma};
	for (int i = 2; i >= 0; i--)
		MUST(fi_ep_bind(eps[i], &av->fid, 0), 0);
	for (int i = 2; i >= 0; i--)
		MUST(fi_enable(eps[i]), 0);

	/* Addresses of both, three each, in one insertion; their numbers follow from that. */
	size_t bytes[3] = {0}, all = 0;
	char names[3 * 64], both[2 * sizeof names];
	for (int i = 0; i < 3; i++) {
		MUST(fi_getname(&eps[i]->fid, NULL, &bytes[i]), -FI_ETOOSMALL);
		MUST(fi_getname(&eps[i]->fid, names + all, &bytes[i]), 0);
		all += bytes[i];
	}
	job_exchange(job, names, all, both);
	MUST(fi_av_insert(av, both, 6, NULL, 0, NULL), 6);
	fi_addr_t other = 3 * (fi_addr_t)(1 - job->rank);

	struct fi_msg receives[2];
	struct iovec iovs[2];
	for (int i = 0; i < 2; i++) {
		iovs[i] = (struct iovec){buffers[i], BUFFER};
		receives[i] = (struct fi_msg){.msg_iov = &iovs[i], .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = &contexts[i]};
		MUST(fi_recvmsg(am[i], &receives[i], FI_MULTI_RECV), 0);
	}
	/* The segment by a key of its own; then all memory, as when everything is the segment. */
	MUST(fi_mr_reg(domain, segment, SEGMENT, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 0, 0, &mr, NULL), 0);
	job_barrier(job);

	struct fi_cq_data_entry entry;
	job_fill(local, SEGMENT, job->rank);
	POST(tx, fi_write(rma, local, SEGMENT, NULL, other + 2, 0, 0, &contexts));
	job_next(tx, &entry);
	HOLDS(entry.flags & FI_WRITE);
	/* A request with its handler in the immediate data, and its reply, by inject. */
	POST(tx, fi_injectdata(am[0], "request", 8, 0x1234, other));
	job_next(rx[0], &entry);
	HOLDS(entry.data == 0x1234 && entry.len == 8 && !strcmp(entry.buf, "request"));
	HOLDS(job_is(segment, SEGMENT, 1 - job->rank));
	POST(tx, fi_senddata(am[1], "reply", 6, NULL, 0x99, other + 1, &contexts[1]));
	job_next(rx[1], &entry);
	HOLDS(entry.data == 0x99 && !strcmp(entry.buf, "reply"));
	job_next(tx, &entry);
	POST(tx, fi_read(rma, local, SEGMENT / 2, NULL, other + 2, 0, 0, &contexts));
	job_next(tx, &entry);
	HOLDS((entry.flags & FI_READ) && job_is(local, SEGMENT / 2, job->rank));
	job_barrier(job);

	MUST(fi_close(&mr->fid), 0);
	MUST(fi_mr_reg(domain, (void *)0, UINT64_MAX, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 0, 0, &mr, NULL), 0);
	uint64_t mine = (uint64_t)(uintptr_t)segment, places[2];
	job_exchange(job, &mine, sizeof mine, places);
	POST(tx, fi_write(rma, "everything", 11, NULL, other + 2, places[1 - job->rank] + 100, 0, &contexts));
	job_next(tx, &entry);
	job_barrier(job);
	MUST(strcmp((char *)segment + 100, "everything"), 0);

	for (int i = 0; i < 2; i++)
		MUST(fi_cancel(&am[i]->fid, &contexts[i]), 0);
	struct fid *fids[] = {&am[1]->fid, &am[0]->fid, &mr->fid, &rma->fid, &tx->fid, &rx[1]->fid, &rx[0]->fid, &av->fid,
			      &domain->fid, &fabric->fid};
	for (size_t i = 0; i < sizeof fids / sizeof *fids; i++)
		MUST(fi_close(fids[i]), 0);
	fi_freeinfo(info);
}
