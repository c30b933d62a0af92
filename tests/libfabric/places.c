/* Addresses by node and service, and as texts: fi_getinfo(3), fi_av(3). */
#include "host.h"
#include "world.h"

#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* A port that other runs of this program do not use at the same time. */
static char port[8], next_port[8];

static struct fi_info *ask(const char *node, const char *service, uint64_t flags, uint32_t format,
			   int wanted)
{
	struct fi_info *hints = hints_new(), *info = NULL;

	hints->addr_format = format;
	EQUAL(fi_getinfo(API, node, service, flags, hints, &info), wanted);
	fi_freeinfo(hints);
	return info;
}

static void refused(const char *node, const char *service, uint64_t flags, uint32_t format)
{
	struct fi_info *info = ask(node, service, flags, format, -FI_ENODATA);

	if (info)
		fi_freeinfo(info);
}

static void what_is_said(void)
{
	struct fi_info *info = ask(NULL, NULL, 0, FI_FORMAT_UNSPEC, 0);

	CHECK(info->src_addr && info->src_addrlen > 0);
	CHECK(!info->dest_addr && info->dest_addrlen == 0);
	fi_freeinfo(info);

	info = ask("127.0.0.1", port, 0, FI_FORMAT_UNSPEC, 0);
	CHECK(info->dest_addr && info->dest_addrlen == info->src_addrlen);
	struct fi_info *again = ask("localhost", port, 0, FI_FORMAT_UNSPEC, 0);
	CHECK(!memcmp(info->dest_addr, again->dest_addr, info->dest_addrlen));
	fi_freeinfo(again);
	/* What a listener of this machine would have as its own. */
	again = ask(NULL, port, FI_SOURCE, FI_FORMAT_UNSPEC, 0);
	CHECK(!memcmp(info->dest_addr, again->src_addr, info->dest_addrlen));
	CHECK(!again->dest_addr);
	fi_freeinfo(again);
	again = ask("127.0.0.1", port, FI_SOURCE | FI_NUMERICHOST, FI_FORMAT_UNSPEC, 0);
	CHECK(again->src_addrlen == info->dest_addrlen && !memcmp(info->dest_addr, again->src_addr, info->dest_addrlen));
	CHECK(!again->dest_addr);
	fi_freeinfo(again);

	/* Taken over from hints; and not looked at with FI_PROV_ATTR_ONLY. */
	struct fi_info *hints = fi_dupinfo(info);
	hints->fabric_attr->prov_name = hints->fabric_attr->prov_name ?: strdup("emp");
	EQUAL(fi_getinfo(API, NULL, NULL, 0, hints, &again), 0);
	CHECK(again->dest_addrlen == info->dest_addrlen &&
	      !memcmp(again->dest_addr, info->dest_addr, info->dest_addrlen));
	fi_freeinfo(again);
	memset(hints->dest_addr, 0xee, hints->dest_addrlen);
	EQUAL(fi_getinfo(API, NULL, NULL, 0, hints, &again), -FI_ENODATA);
	fi_freeinfo(hints);
	fi_freeinfo(info);

	refused("no-such-host.invalid", port, 0, FI_FORMAT_UNSPEC);
	refused("localhost", port, FI_NUMERICHOST, FI_FORMAT_UNSPEC);
	refused("localhost", port, FI_SOURCE | FI_NUMERICHOST, FI_FORMAT_UNSPEC);
	refused("127.0.0.1", "70000", 0, FI_FORMAT_UNSPEC);
	refused("127.0.0.1", "no-such-service", 0, FI_FORMAT_UNSPEC);
	refused("192.0.2.77", port, FI_SOURCE, FI_FORMAT_UNSPEC);
	refused("fi_emp://", "7", 0, FI_ADDR_STR);
	refused("fi_emp://@nonsense", NULL, 0, FI_ADDR_STR);
	refused("fi_other://127.0.0.1:7", NULL, 0, FI_ADDR_STR);
	refused("127.0.0.1", port, 0, FI_SOCKADDR_IN);
}

struct process {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
};

static int process_open(struct process *it, struct fi_info *info)
{
	struct fi_av_attr av = {.type = FI_AV_TABLE};
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED};

	memset(it, 0, sizeof *it);
	it->info = info;
	EQUAL(fi_fabric(info->fabric_attr, &it->fabric, NULL), 0);
	EQUAL(fi_domain(it->fabric, info, &it->domain, NULL), 0);
	EQUAL(fi_av_open(it->domain, &av, &it->av, NULL), 0);
	EQUAL(fi_cq_open(it->domain, &cq, &it->cq, NULL), 0);
	int result = fi_endpoint(it->domain, info, &it->ep, NULL);
	if (result)
		return result;
	EQUAL(fi_ep_bind(it->ep, &it->av->fid, 0), 0);
	EQUAL(fi_ep_bind(it->ep, &it->cq->fid, FI_TRANSMIT | FI_RECV), 0);
	EQUAL(fi_enable(it->ep), 0);
	return 0;
}

static void process_close(struct process *it)
{
	if (it->ep)
		EQUAL(fi_close(&it->ep->fid), 0);
	EQUAL(fi_close(&it->cq->fid), 0);
	EQUAL(fi_close(&it->av->fid), 0);
	EQUAL(fi_close(&it->domain->fid), 0);
	EQUAL(fi_close(&it->fabric->fid), 0);
	fi_freeinfo(it->info);
}

static ssize_t wait_for(struct process *one, struct process *other, struct fi_cq_tagged_entry *entry)
{
	double end = now() + PATIENCE;
	ssize_t result;

	do {
		fi_cq_read(other->cq, NULL, 0);
		result = fi_cq_read(one->cq, entry, 1);
	} while (result == -FI_EAGAIN && now() < end);
	return result;
}

/* The client knows host and port, the server learns the client's address from the first message. */
static void meet(struct fi_info *of_server, struct fi_info *of_client)
{
	struct process server, client;
	struct fi_cq_tagged_entry entry;
	fi_addr_t there = 7, back = 7;
	char sent[160], name[160] = "", seen[160] = "";
	size_t bytes = sizeof sent;
	int text = of_client->addr_format == FI_ADDR_STR;

	host_enter(0);
	EQUAL(process_open(&client, of_client), 0);
	const void *dest = text ? (void *)&of_client->dest_addr : of_client->dest_addr;
	EQUAL(fi_av_insert(client.av, dest, 1, &there, 0, NULL), 1);
	EQUAL(there, 0);
	EQUAL(fi_getname(&client.ep->fid, sent, &bytes), 0);
	/* Sent before there is a server. */
	EQUAL(fi_send(client.ep, sent, bytes, NULL, there, NULL), 0);
	host_enter(1);
	EQUAL(process_open(&server, of_server), 0);
	host_enter(0);
	EQUAL(fi_recv(server.ep, name, sizeof name, NULL, FI_ADDR_UNSPEC, NULL), 0);
	EQUAL(wait_for(&server, &client, &entry), 1);
	CHECK(entry.len == bytes && (entry.flags & FI_RECV));
	EQUAL(wait_for(&client, &server, &entry), 1);
	const char *name_pointer = name;
	EQUAL(fi_av_insert(server.av, text ? (void *)&name_pointer : name, 1, &back, 0, NULL), 1);
	EQUAL(fi_recv(client.ep, name, sizeof name, NULL, there, NULL), 0);
	EQUAL(fi_inject(server.ep, "back", 4, back), 0);
	EQUAL(wait_for(&client, &server, &entry), 1);
	CHECK(entry.len == 4);
	/* The server is who it was said to be. */
	bytes = sizeof seen;
	EQUAL(fi_getname(&server.ep->fid, seen, &bytes), 0);
	const char *seen_pointer = seen;
	EQUAL(fi_av_insert(client.av, text ? (void *)&seen_pointer : seen, 1, &back, 0, NULL), 1);
	EQUAL(back, there);
	process_close(&client);
	process_close(&server);
}

static void client_and_server(void)
{
	for (int again = 0; again < 2; again++)
		meet(ask(NULL, port, FI_SOURCE, FI_FORMAT_UNSPEC, 0),
		     ask("127.0.0.1", port, 0, FI_FORMAT_UNSPEC, 0));
	meet(ask("127.0.0.1", port, FI_SOURCE | FI_NUMERICHOST, FI_FORMAT_UNSPEC, 0),
	     ask("127.0.0.1", port, FI_NUMERICHOST, FI_FORMAT_UNSPEC, 0));
	meet(ask("lo", next_port, FI_SOURCE, FI_FORMAT_UNSPEC, 0),
	     ask("localhost", next_port, 0, FI_FORMAT_UNSPEC, 0));
	char text[40], named[60];
	snprintf(text, sizeof text, "fi_emp://127.0.0.1:%s", port);
	meet(ask(text, NULL, FI_SOURCE, FI_ADDR_STR, 0), ask(text, NULL, 0, FI_ADDR_STR, 0));
	snprintf(named, sizeof named, "fi_emp://conformance-%d.invalid:9", (int)getpid());
	if (strcmp(getenv("FI_EMP_LINK") ?: "", "shm") == 0)
		meet(ask(named, NULL, FI_SOURCE, FI_ADDR_STR, 0), ask(named, NULL, 0, FI_ADDR_STR, 0));
}

/* The Ethernet address of an interface of this host, as people write it. */
static void ethernet_address(const char *interface, char text[18])
{
	struct ifreq asked = {0};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	unsigned char *mac = (unsigned char *)asked.ifr_hwaddr.sa_data;

	snprintf(asked.ifr_name, sizeof asked.ifr_name, "%s", interface);
	EQUAL(ioctl(fd, SIOCGIFHWADDR, &asked), 0);
	close(fd);
	snprintf(text, 18, "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3], mac[4], mac[5]);
}

/* A server on one host, named in each way that there is, and a client on another. */
static void meet_between_hosts(const char *source, uint32_t format, const char *destination, const char *service)
{
	host_enter(1);
	struct fi_info *of_server = ask(source, service, FI_SOURCE, format, 0);
	host_enter(0);
	struct fi_info *of_client = ask(destination, service, 0, format, 0);

	if (of_server && of_client)
		meet(of_server, of_client);
}

void test_meeting(void)
{
	const char *interface = getenv("FI_EMP_IFACE"), *there = host_address(1);
	char mac[18], text[60], named[60];

	snprintf(port, sizeof port, "%d", 20000 + (int)getpid() % 10000);
	meet_between_hosts(NULL, FI_FORMAT_UNSPEC, there, port);
	meet_between_hosts(there, FI_FORMAT_UNSPEC, there, port);
	meet_between_hosts(interface, FI_FORMAT_UNSPEC, there, port);
	snprintf(text, sizeof text, "fi_emp://%s:%s", there, port);
	meet_between_hosts(text, FI_ADDR_STR, text, NULL);
	/* On loopback there is no such address, and nobody to be found by a name. */
	if (!host_name(1))
		return;
	host_enter(1);
	ethernet_address(interface, mac);
	meet_between_hosts(mac, FI_FORMAT_UNSPEC, there, port);
	snprintf(named, sizeof named, "fi_emp://conformance-%d.invalid:9", (int)getpid());
	meet_between_hosts(named, FI_ADDR_STR, named, NULL);
	meet_between_hosts(named, FI_FORMAT_UNSPEC, named, NULL);
}

static void taken(void)
{
	struct process first, second;

	EQUAL(process_open(&first, ask(NULL, port, FI_SOURCE, FI_FORMAT_UNSPEC, 0)), 0);
	/* The domain may be of use all the same: only who wants to listen there is told. */
	EQUAL(process_open(&second, ask(NULL, port, FI_SOURCE, FI_FORMAT_UNSPEC, 0)), -FI_EADDRINUSE);
	struct fi_info *other = ask(NULL, next_port, FI_SOURCE, FI_FORMAT_UNSPEC, 0);
	struct fid_ep *ep;
	EQUAL(fi_endpoint(first.domain, other, &ep, NULL), -FI_EADDRNOTAVAIL);
	fi_freeinfo(other);
	/* Further endpoints that say nothing of an address. */
	other = ask(NULL, NULL, 0, FI_FORMAT_UNSPEC, 0);
	EQUAL(fi_endpoint(first.domain, other, &ep, NULL), 0);
	EQUAL(fi_close(&ep->fid), 0);
	fi_freeinfo(other);
	process_close(&second);
	process_close(&first);
}

static void by_service(void)
{
	struct world world;
	struct fid_av *av;
	struct fi_av_attr attr = {.type = FI_AV_TABLE};
	fi_addr_t one = 9, four[4];
	char text[80];

	world_open(&world, NULL);
	EQUAL(fi_av_open(world.a.domain, &attr, &av, NULL), 0);
	EQUAL(fi_av_insertsvc(av, "10.99.0.1", "5000", &one, 0, NULL), 1);
	EQUAL(one, 0);
	EQUAL(fi_av_insertsvc(av, "fi_emp://10.99.0.1:5000", NULL, &one, 0, NULL), 1);
	EQUAL(one, 0);
	EQUAL(fi_av_insertsym(av, "10.99.0.1", 2, "5000", 2, four, 0, NULL), 4);
	for (int i = 0; i < 4; i++) {
		static const char *wanted[] = {"10.99.0.1:5000", "10.99.0.1:5001", "10.99.0.2:5000",
					       "10.99.0.2:5001"};
		char seen[64];
		size_t bytes = sizeof seen, room = sizeof text;

		EQUAL(four[i], i);
		EQUAL(fi_av_lookup(av, four[i], seen, &bytes), 0);
		fi_av_straddr(av, seen, text, &room);
		CHECK(!strncmp(text, "fi_emp://", 9) && !strcmp(text + 9, wanted[i]));
	}
	int errors[2] = {7, 7};
	EQUAL(fi_av_insertsym(av, "10.99.0.9", 1, "65535", 2, four, 0, NULL), -FI_EINVAL);
	EQUAL(fi_av_insertsym(av, "no-number", 2, "5000", 1, four, 0, NULL), -FI_EINVAL);
	EQUAL(fi_av_insertsvc(av, "no-such-host.invalid", "5000", &one, FI_SYNC_ERR, errors), 0);
	CHECK(one == FI_ADDR_NOTAVAIL && errors[0] == FI_EINVAL && errors[1] == 7);
	/* Nobody is to be found where no port is named. */
	EQUAL(fi_av_insertsvc(av, "10.99.0.1", NULL, &one, 0, NULL), 0);
	EQUAL(fi_av_insertsvc(av, "10.99.0.1", "5000", &one, FI_CLAIM, NULL), -FI_EBADFLAGS);
	EQUAL(fi_close(&av->fid), 0);
	world_close(&world);
}

static void lowest_first(void)
{
	struct world world;
	struct fid_av *av;
	struct fi_av_attr attr = {.type = FI_AV_TABLE};
	fi_addr_t six[6], some[] = {4, 1, 3}, number;

	world_open(&world, NULL);
	EQUAL(fi_av_open(world.a.domain, &attr, &av, NULL), 0);
	EQUAL(fi_av_insertsym(av, "10.99.0.1", 6, "5000", 1, six, 0, NULL), 6);
	EQUAL(fi_av_remove(av, some, 3, 0), 0);
	for (int i = 0; i < 4; i++) {
		static const fi_addr_t wanted[] = {1, 3, 4, 6};
		char host[20];

		snprintf(host, sizeof host, "10.99.1.%d", i + 1);
		EQUAL(fi_av_insertsvc(av, host, "5000", &number, 0, NULL), 1);
		EQUAL(number, wanted[i]);
	}
	EQUAL(fi_close(&av->fid), 0);
	world_close(&world);
}

/* Completions call a peer as its user does. */
static void users_names(void)
{
	struct world world;
	struct options options = {.caps = FI_MSG | FI_SOURCE};
	char name[64], byte;
	size_t bytes = sizeof name;
	fi_addr_t number = 4711, source = 0;
	struct fi_cq_tagged_entry entry;

	world_open(&world, &options);
	EQUAL(fi_getname(&world.a.ep->fid, name, &bytes), 0);
	EQUAL(fi_av_insert(world.b.av, name, 1, NULL, FI_AV_USER_ID, NULL), -FI_EBADFLAGS);
	for (fi_addr_t called = 4711; called < 4713; called++) {
		number = called;
		EQUAL(fi_av_insert(world.b.av, name, 1, &number, FI_AV_USER_ID, NULL), 1);
		EQUAL(number, world.b.peer);
		EQUAL(fi_recv(world.b.ep, &byte, 1, NULL, FI_ADDR_UNSPEC, NULL), 0);
		EQUAL(fi_inject(world.a.ep, "x", 1, world.a.peer), 0);
		double end = now() + PATIENCE;
		ssize_t result;
		do {
			fi_cq_read(world.a.cq, NULL, 0);
			result = fi_cq_readfrom(world.b.cq, &entry, 1, &source);
		} while (result == -FI_EAGAIN && now() < end);
		EQUAL(result, 1);
		EQUAL(source, called);
	}
	world_close(&world);
}

/* Newer than the headers of 1.17: behind the members that those have, and two for keys. */
struct newer_ops {
	struct fi_ops_av known;
	void (*keys[2])(void);
	int (*set_user_id)(struct fid_av *av, fi_addr_t number, fi_addr_t called, uint64_t flags);
};

static int set_user_id(struct fid_av *av, fi_addr_t number, fi_addr_t called, uint64_t flags)
{
#if FI_MAJOR_VERSION > 1 || FI_MINOR_VERSION >= 20
	return fi_av_set_user_id(av, number, called, flags);
#else
	CHECK(av->ops->size >= sizeof(struct newer_ops));
	return ((struct newer_ops *)av->ops)->set_user_id(av, number, called, flags);
#endif
}

/* The number that a completion at b has for a message from a. */
static fi_addr_t source_of_one(struct world *world)
{
	struct fi_cq_tagged_entry entry;
	fi_addr_t source = 17;
	double end = now() + PATIENCE;
	ssize_t result;
	char byte;

	EQUAL(fi_recv(world->b.ep, &byte, 1, NULL, FI_ADDR_UNSPEC, NULL), 0);
	EQUAL(fi_inject(world->a.ep, "x", 1, world->a.peer), 0);
	do {
		fi_cq_read(world->a.cq, NULL, 0);
		result = fi_cq_readfrom(world->b.cq, &entry, 1, &source);
	} while (result == -FI_EAGAIN && now() < end);
	EQUAL(result, 1);
	return source;
}

/* All of a vector's names are its user's: whom it has not named has none. */
static void names_of_a_whole_vector(void)
{
	struct world world;
	struct options options = {.caps = FI_MSG | FI_SOURCE, .av_flags = FI_AV_USER_ID};
	char name[64];
	size_t bytes = sizeof name;
	fi_addr_t number = 4711;

	world_open(&world, &options);
	CHECK(source_of_one(&world) == FI_ADDR_NOTAVAIL);
	EQUAL(set_user_id(world.b.av, world.b.peer, 4711, 0), 0);
	EQUAL(source_of_one(&world), 4711);
	EQUAL(set_user_id(world.b.av, world.b.peer, 4712, 0), 0);
	EQUAL(source_of_one(&world), 4712);
	EQUAL(set_user_id(world.b.av, world.b.peer, 1, FI_MORE), -FI_EBADFLAGS);
	EQUAL(set_user_id(world.b.av, 99, 1, 0), -FI_EINVAL);
	EQUAL(set_user_id(world.b.av, FI_ADDR_UNSPEC, 1, 0), -FI_EINVAL);
	EQUAL(source_of_one(&world), 4712);
	/* There are not two ways to the same. */
	EQUAL(fi_getname(&world.a.ep->fid, name, &bytes), 0);
	EQUAL(fi_av_insert(world.b.av, name, 1, &number, FI_AV_USER_ID, NULL), -FI_EBADFLAGS);
	world_close(&world);

	options.av_flags = 0;
	world_open(&world, &options);
	EQUAL(set_user_id(world.b.av, world.b.peer, 4711, 0), -FI_EINVAL);
	EQUAL(source_of_one(&world), world.b.peer);
	world_close(&world);
}

static void failures_by_the_queue(void)
{
	struct world world;
	struct fid_av *av;
	struct fid_eq *eq;
	struct fi_av_attr attr = {.type = FI_AV_TABLE, .flags = FI_EVENT};
	struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_NONE};
	struct fi_eq_err_entry error;
	struct fi_eq_entry entry;
	char list[3 * 64];
	size_t bytes = sizeof list;
	fi_addr_t numbers[3];
	uint32_t event = 0;
	int context;

	world_open(&world, NULL);
	EQUAL(fi_getname(&world.b.ep->fid, list, &bytes), 0);
	memset(list + bytes, 0xee, bytes);
	memset(list + 2 * bytes, 0, bytes);
	EQUAL(fi_av_open(world.a.domain, &attr, &av, NULL), 0);
	EQUAL(fi_eq_open(world.fabric, &eq_attr, &eq, NULL), 0);
	EQUAL(fi_av_bind(av, &eq->fid, 0), 0);
	EQUAL(fi_av_insert(av, list, 3, numbers, 0, &context), 0);
	for (int i = 1; i < 3; i++) {
		memset(&error, 0, sizeof error);
		EQUAL(fi_eq_read(eq, &event, &entry, sizeof entry, 0), -FI_EAVAIL);
		EQUAL(fi_eq_readerr(eq, &error, 0), sizeof error);
		CHECK(error.fid == &av->fid && error.context == &context);
		CHECK(error.err == FI_EINVAL && error.data == (uint64_t)i);
	}
	EQUAL(fi_eq_readerr(eq, &error, 0), -FI_EAGAIN);
	EQUAL(fi_eq_read(eq, &event, &entry, sizeof entry, 0), sizeof entry);
	CHECK(event == FI_AV_COMPLETE && entry.data == 1 && entry.context == &context);
	EQUAL(fi_close(&av->fid), 0);
	EQUAL(fi_close(&eq->fid), 0);
	world_close(&world);
}

void test_places(void)
{
	snprintf(port, sizeof port, "%d", 20000 + (int)getpid() % 10000);
	snprintf(next_port, sizeof next_port, "%d", 30000 + (int)getpid() % 2000);
	what_is_said();
	client_and_server();
	taken();
	by_service();
	lowest_first();
	users_names();
	names_of_a_whole_vector();
	failures_by_the_queue();
}
