/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports its start: sends a datagram "NAME NANOSECONDS" of CLOCK_MONOTONIC to ADDRESS:PORT. As a
 * container's first program it shows benches when the container could work.
 * usage: say-start NAME ADDRESS PORT
 */
#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

int main(int argc, char **argv)
{
	struct sockaddr_in to = {.sin_family = AF_INET};
	struct timespec now;
	char text[320];
	int sock, n;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (argc != 4 || inet_pton(AF_INET, argv[2], &to.sin_addr) != 1) {
		fprintf(stderr, "usage: say-start NAME ADDRESS PORT\n");
		return 2;
	}
	to.sin_port = htons((uint16_t)strtoul(argv[3], NULL, 10));
	n = snprintf(text, sizeof(text), "%.255s %" PRIu64, argv[1],
		(uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec);
	sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (sock < 0 ||
		sendto(sock, text, (size_t)n, 0, (struct sockaddr *)&to, sizeof(to)) !=
			(ssize_t)n) {
		perror("say-start");
		return 1;
	}
	return 0;
}
