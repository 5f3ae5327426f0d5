/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker of a service: connects to ADDRESS:PORT, runs one kernel of KERNEL_US for each byte that
 * it receives, and sends the byte back. Ends when the service closes the connection.
 * usage: worker ADDRESS PORT KERNEL_US
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "spin-kernel.h"

static struct spin_kernel kernel;
static cu_handle stream;

static void prepare(void)
{
	spin_kernel_open("worker", 0, &kernel);
	cuda_check(cuda.stream_create(&stream, CU_STREAM_NON_BLOCKING), "stream");
}

static void work(uint64_t ns)
{
	spin_kernel_launch(&kernel, ns, stream);
	cuda_check(cuda.stream_synchronize(stream), "synchronise");
}

int main(int argc, char **argv)
{
	struct sockaddr_in to = {.sin_family = AF_INET};
	uint64_t kernel_us;
	char byte;
	int sock;

	if (argc != 4 || inet_pton(AF_INET, argv[1], &to.sin_addr) != 1) {
		fprintf(stderr, "usage: worker ADDRESS PORT KERNEL_US\n");
		return 2;
	}
	to.sin_port = htons((uint16_t)strtoul(argv[2], NULL, 10));
	kernel_us = strtoull(argv[3], NULL, 10);
	prepare();
	sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (sock < 0 || connect(sock, (const struct sockaddr *)&to, sizeof(to)) < 0) {
		perror("worker");
		return 1;
	}
	while (read(sock, &byte, 1) == 1) {
		work(kernel_us * 1000);
		if (send(sock, &byte, 1, MSG_NOSIGNAL) != 1)
			break;
	}
	return 0;
}
