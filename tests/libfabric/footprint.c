/* Memory of one rank: its own, and that of each peer that it talks with. */
#include "world.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PEERS = 64, NAME = 32 };

/* Bytes of this process that are really there, of its own. */
static long resident(void)
{
	char line[200];
	long kilobytes = 0;
	FILE *file = fopen("/proc/self/status", "r");

	while (file && fgets(line, sizeof line, file))
		if (sscanf(line, "RssAnon: %ld", &kilobytes) == 1)
			break;
	if (file)
		fclose(file);
	return kilobytes * 1024;
}

struct rank {
	struct fid_domain *domain;
	struct fid_cq *cq;
	struct fid_av *av;
	struct fid_ep *ep;
};

static void rank_open(struct fid_fabric *fabric, struct fi_info *info, struct rank *rank, char *name)
{
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED};
	struct fi_av_attr av = {.type = FI_AV_TABLE};
	size_t bytes = NAME;

	if (fi_domain(fabric, info, &rank->domain, NULL) || fi_cq_open(rank->domain, &cq, &rank->cq, NULL) ||
	    fi_av_open(rank->domain, &av, &rank->av, NULL) || fi_endpoint(rank->domain, info, &rank->ep, NULL) ||
	    fi_ep_bind(rank->ep, &rank->cq->fid, FI_TRANSMIT | FI_RECV) || fi_ep_bind(rank->ep, &rank->av->fid, 0) ||
	    fi_enable(rank->ep) || fi_getname(&rank->ep->fid, name, &bytes)) {
		printf("a rank could not be opened\n");
		_exit(1);
	}
}

static void one_entry(struct rank *rank)
{
	struct fi_cq_tagged_entry entry;
	double end = now() + PATIENCE;
	ssize_t result;

	do
		result = fi_cq_read(rank->cq, &entry, 1);
	while (result == -FI_EAGAIN && now() < end);
	EQUAL(result, 1);
}

/* The peers: each sends the measured rank one message and takes one. */
static int be_peers(struct fid_fabric *fabric, struct fi_info *info, int in, int out)
{
	static struct rank peers[PEERS];
	static char names[PEERS][NAME], byte[PEERS];
	char target[NAME];
	fi_addr_t to;

	for (int i = 0; i < PEERS; i++) {
		rank_open(fabric, info, &peers[i], names[i]);
		EQUAL(fi_recv(peers[i].ep, &byte[i], 1, NULL, FI_ADDR_UNSPEC, NULL), 0);
	}
	CHECK(write(out, names, sizeof names) == sizeof names);
	CHECK(read(in, target, NAME) == NAME);
	for (int i = 0; i < PEERS; i++) {
		one_entry(&peers[i]);
		EQUAL(fi_av_insert(peers[i].av, target, 1, &to, 0, NULL), 1);
		EQUAL(fi_send(peers[i].ep, "a", 1, NULL, to, NULL), 0);
		one_entry(&peers[i]);
	}
	/* Until the other has measured. */
	CHECK(read(in, target, 1) == 1);
	return checks_failed != 0;
}

void test_footprint(void)
{
	struct fi_info *hints = hints_new(), *info = NULL;
	struct fid_fabric *fabric;
	struct rank mine;
	char name[NAME], names[PEERS][NAME], byte;
	int to_peers[2], from_peers[2], status = -1;
	fi_addr_t peers[PEERS];

	EQUAL(fi_getinfo(API, NULL, NULL, 0, hints, &info), 0);
	fi_freeinfo(hints);
	if (!info || pipe(to_peers) || pipe(from_peers))
		return;
	EQUAL(fi_fabric(info->fabric_attr, &fabric, NULL), 0);
	pid_t child = fork();
	if (child == 0)
		_exit(be_peers(fabric, info, to_peers[0], from_peers[1]));

	long before = resident();
	rank_open(fabric, info, &mine, name);
	/* Self-talk takes into use what is needed for any peer. */
	fi_addr_t self;
	EQUAL(fi_av_insert(mine.av, name, 1, &self, 0, NULL), 1);
	EQUAL(fi_recv(mine.ep, &byte, 1, NULL, FI_ADDR_UNSPEC, NULL), 0);
	EQUAL(fi_send(mine.ep, "s", 1, NULL, self, NULL), 0);
	one_entry(&mine);
	one_entry(&mine);
	long opened = resident();

	ssize_t got = 0;
	while (got < (ssize_t)sizeof names) {
		ssize_t more = read(from_peers[0], (char *)names + got, sizeof names - got);
		if (more <= 0)
			break;
		got += more;
	}
	EQUAL(got, sizeof names);
	EQUAL(fi_av_insert(mine.av, names, PEERS, peers, 0, NULL), PEERS);
	long first = 0;
	EQUAL(write(to_peers[1], name, NAME), NAME);
	for (int i = 0; i < PEERS; i++) {
		EQUAL(fi_recv(mine.ep, &byte, 1, NULL, FI_ADDR_UNSPEC, NULL), 0);
		EQUAL(fi_send(mine.ep, "b", 1, NULL, peers[i], NULL), 0);
		one_entry(&mine);
		one_entry(&mine);
		/* The first few take buffers into use that the others share. */
		if (i == 3)
			first = resident();
	}
	long each = (resident() - first) / (PEERS - 4);
	printf("footprint: %.1f MB of a rank, %ld bytes of a peer\n", (opened - before) / 1e6, each);
	CHECK(opened - before <= 16 << 20);
	CHECK(each <= 4096);

	EQUAL(write(to_peers[1], "x", 1), 1);
	EQUAL(waitpid(child, &status, 0), child);
	EQUAL(status, 0);
	EQUAL(fi_close(&mine.ep->fid), 0);
	EQUAL(fi_close(&mine.cq->fid), 0);
	EQUAL(fi_close(&mine.av->fid), 0);
	EQUAL(fi_close(&mine.domain->fid), 0);
	EQUAL(fi_close(&fabric->fid), 0);
	fi_freeinfo(info);
	close(to_peers[0]), close(to_peers[1]), close(from_peers[0]), close(from_peers[1]);
}
