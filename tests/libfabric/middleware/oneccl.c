/* oneCCL's ATL over OFI: asked twice, the second time with as many contexts as the first answer allows; tagged messages with no flags,
 * and probes. */
#include "job.h"

enum { BYTES = 400000, TAG = 77 };
static unsigned char out[BYTES], in[BYTES];

static struct fi_info *ask(size_t contexts)
{
	struct fi_info *hints = fi_allocinfo();

	hints->mode = FI_CONTEXT;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
	hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
	hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
	hints->caps = FI_TAGGED;
	hints->fabric_attr->prov_name = strdup("emp");
	hints->ep_attr->tx_ctx_cnt = hints->ep_attr->rx_ctx_cnt = contexts;
	return job_info(FI_VERSION(1, 10), hints);
}

void oneccl(struct job *job)
{
	struct fi_info *info = ask(0);

	MUST(info->domain_attr->max_ep_tx_ctx, 1);
	fi_freeinfo(info);
	info = ask(1);
	MUST(info->ep_attr->rx_ctx_cnt, 1);
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE, .rx_ctx_bits = 0};
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED};
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
	struct fid_mr *mr;
	MUST(fi_fabric(info->fabric_attr, &fabric, NULL), 0);
	MUST(fi_domain(fabric, info, &domain, NULL), 0);
	MUST(fi_av_open(domain, &av_attr, &av, NULL), 0);
	MUST(fi_cq_open(domain, &cq_attr, &cq, NULL), 0);
	MUST(fi_endpoint(domain, info, &ep, NULL), 0);
	MUST(fi_ep_bind(ep, &cq->fid, FI_SEND | FI_RECV), 0);
	MUST(fi_ep_bind(ep, &av->fid, 0), 0);
	MUST(fi_enable(ep), 0);
	size_t bytes = 0;
	char name[64] = "", names[2 * sizeof name];
	MUST(fi_getname(&ep->fid, name, &bytes), -FI_ETOOSMALL);
	HOLDS(bytes <= sizeof name);
	MUST(fi_getname(&ep->fid, name, &bytes), 0);
	job_exchange(job, name, sizeof name, names);
	fi_addr_t numbers[2];
	for (int i = 0; i < 2; i++)
		MUST(fi_av_insert(av, names + i * sizeof name, 1, &numbers[i], 0, NULL), 1);
	uint64_t access = FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
	MUST(fi_mr_reg(domain, out, BYTES, access, 0, 0, 0, &mr, NULL), 0);
	fi_addr_t other = numbers[1 - job->rank];

	struct fi_context contexts[3];
	struct fi_cq_tagged_entry entries[8];
	void *desc = fi_mr_desc(mr);
	struct iovec iov = {out, BYTES}, into = {in, BYTES};
	struct fi_msg_tagged message = {.msg_iov = &iov, .desc = &desc, .iov_count = 1, .addr = other, .tag = TAG,
					.context = &contexts[0]};
	struct fi_msg_tagged receive = {.msg_iov = &into, .iov_count = 1, .addr = other, .tag = TAG, .context = &contexts[1]};
	job_fill(out, BYTES, job->rank);
	POST(cq, fi_trecvmsg(ep, &receive, 0));
	POST(cq, fi_tsendmsg(ep, &message, 0));
	for (int ended = 0; ended < 2;) {
		ssize_t got = fi_cq_read(cq, entries, 8);

		HOLDS(got > 0 || got == -FI_EAGAIN);
		ended += got > 0 ? (int)got : 0;
	}
	HOLDS(job_is(in, BYTES, 1 - job->rank));
	/* A probe that finds nothing, then one that does. */
	struct fi_msg_tagged probe = {.addr = other, .tag = TAG + 1, .context = &contexts[2]};
	struct fi_cq_err_entry error = {0};
	MUST(fi_trecvmsg(ep, &probe, FI_PEEK | FI_COMPLETION), 0);
	MUST(fi_cq_read(cq, entries, 1), -FI_EAVAIL);
	MUST(fi_cq_readerr(cq, &error, 0), 1);
	MUST(error.err, FI_ENOMSG);
	job_barrier(job);
	POST(cq, fi_tinject(ep, "later", 6, other, TAG + 1));
	for (ssize_t got = -FI_EAVAIL; got != 1;) {
		MUST(fi_trecvmsg(ep, &probe, FI_PEEK | FI_COMPLETION), 0);
		while ((got = fi_cq_read(cq, entries, 1)) == -FI_EAGAIN)
			;
		if (got == -FI_EAVAIL)
			MUST(fi_cq_readerr(cq, &error, 0), 1);
	}
	MUST(entries[0].len, 6);
	job_barrier(job);
	struct fid *fids[] = {&mr->fid, &ep->fid, &cq->fid, &av->fid, &domain->fid, &fabric->fid};
	for (size_t i = 0; i < sizeof fids / sizeof *fids; i++)
		MUST(fi_close(fids[i]), 0);
	fi_freeinfo(info);
}
