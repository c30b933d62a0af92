/* start SECOND: what a rank's start costs at the provider: the calls of Open MPI's `mtl ofi` in their order, by the clock and by the processor, once
 * libfabric has initialised itself (a first fi_getinfo that names no provider). All ranks begin at the same SECOND of the clock. */
#define _GNU_SOURCE
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double ms(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

/* Memory of this process, shared pages by their part, in KB. */
static long pss(void)
{
	FILE *file = fopen("/proc/self/smaps_rollup", "r");
	char line[200];
	long kb = 0;

	while (file && fgets(line, sizeof line, file) && sscanf(line, "Pss: %ld", &kb) != 1)
		;
	if (file)
		fclose(file);
	return kb;
}

static void wait_for(time_t second)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (second > now.tv_sec)
		usleep((second - now.tv_sec) * 1000000L - now.tv_nsec / 1000);
}

int main(int count, char **arguments)
{
	uint32_t version = FI_VERSION(1, 9);
	struct fi_info *hints = fi_allocinfo(), *info, *all;
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED};
	struct fi_av_attr av_attr = {.type = FI_AV_MAP};
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_ep *ep;
	struct fid_cq *cq;
	struct fid_av *av;
	double begin, asked, opened, end, cpu;
	long before;

	fi_getinfo(version, NULL, NULL, 0, NULL, &all);
	hints->caps = FI_TAGGED;
	hints->mode = FI_CONTEXT;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->av_type = FI_AV_MAP;
	hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
	hints->fabric_attr->prov_name = strdup("emp");
	wait_for(count > 1 ? atol(arguments[1]) : 0);
	before = pss();
	begin = ms(CLOCK_MONOTONIC), cpu = ms(CLOCK_PROCESS_CPUTIME_ID);
	if (fi_getinfo(version, NULL, NULL, 0, hints, &info))
		return 1;
	asked = ms(CLOCK_MONOTONIC);
	if (fi_fabric(info->fabric_attr, &fabric, NULL) || fi_domain(fabric, info, &domain, NULL))
		return 1;
	opened = ms(CLOCK_MONOTONIC);
	if (fi_endpoint(domain, info, &ep, NULL) || fi_cq_open(domain, &cq_attr, &cq, NULL) || fi_av_open(domain, &av_attr, &av, NULL) ||
	    fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV) || fi_ep_bind(ep, &av->fid, 0) || fi_enable(ep))
		return 1;
	end = ms(CLOCK_MONOTONIC), cpu = ms(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	printf("start: all %.2f ms, of which fi_getinfo %.2f and fi_domain %.2f; processor %.2f ms; memory %ld to %ld KB\n", end - begin,
	       asked - begin, opened - asked, cpu, before, pss());
	fflush(stdout);
	/* The others are there as well. */
	sleep(2);
	return 0;
}
