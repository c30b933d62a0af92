/* Two hosts in one program: where HOST_A and HOST_B name network namespaces, what this thread opens from now on is on that host, and finds
 * the service that listens at SERVICE_A or SERVICE_B, if there is one. */
#ifndef HOST_H
#define HOST_H

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline const char *host_name(int side)
{
	return getenv(side ? "HOST_B" : "HOST_A");
}

static inline void host_enter(int side)
{
	char path[256];

	if (!host_name(side))
		return;
	snprintf(path, sizeof path, "/var/run/netns/%s", host_name(side));
	int namespace = open(path, O_RDONLY | O_CLOEXEC);
	if (namespace < 0 || setns(namespace, CLONE_NEWNET)) {
		perror(path);
		exit(1);
	}
	close(namespace);
	const char *service = getenv(side ? "SERVICE_B" : "SERVICE_A");
	if (service)
		setenv("EMP_SERVICE", service, 1);
}

/* An address that this side's host has. */
static inline const char *host_address(int side)
{
	static const char *const there[] = {"10.77.0.1", "10.77.0.2"};

	return host_name(side) ? there[side] : "127.0.0.1";
}

#endif
