// nginx as the limit of the proxy: the same way from plain http to the same https destination, with connections that stay.
// One worker, as ours is one process; what it logs goes where our log goes.
import { spawn } from 'node:child_process';
import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from '../test/support/process.ts';
import { stopChild, untilReady } from './servers.ts';

const PROGRAM = '/usr/sbin/nginx';

export const hasNginx = existsSync(PROGRAM);

export type Nginx = { url: string; pid: number; stop(): Promise<void> };

type Asked = { destinationPort: number; caPath: string; workers: number | 'auto' };

const configuration = (directory: string, port: number, { destinationPort, caPath, workers }: Asked): string => `
daemon off;
worker_processes ${workers};
pid ${directory}/nginx.pid;
error_log stderr crit;
events {}
http {
  access_log /dev/null;
  client_body_temp_path ${directory}/body;
  proxy_temp_path ${directory}/proxy;
  fastcgi_temp_path ${directory}/fastcgi;
  uwsgi_temp_path ${directory}/uwsgi;
  scgi_temp_path ${directory}/scgi;
  upstream destination {
    server 127.0.0.1:${destinationPort};
    keepalive 32;
    keepalive_requests 1000000;
  }
  server {
    listen 127.0.0.1:${port};
    keepalive_requests 1000000;
    location = /ready { return 200; }
    location /proxy {
      proxy_pass https://destination/;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host localhost;
      proxy_ssl_protocols TLSv1.2 TLSv1.3;
      proxy_ssl_server_name on;
      proxy_ssl_name localhost;
      proxy_ssl_verify on;
      proxy_ssl_trusted_certificate ${caPath};
    }
  }
}
`;

export const startNginx = async (asked: Asked): Promise<Nginx> => {
  const directory = mkdtempSync(join(tmpdir(), 'strongroom-bench-nginx-'));
  // Its workers may be another user.
  chmodSync(directory, 0o711);
  const port = await freePort();
  const path = join(directory, 'nginx.conf');
  writeFileSync(path, configuration(directory, port, asked));
  const child = spawn(PROGRAM, ['-p', directory, '-c', path, '-e', 'stderr'], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  await untilReady(`http://127.0.0.1:${port}/ready`, child);
  return {
    url: `http://127.0.0.1:${port}/proxy`,
    pid: child.pid as number,
    stop: async () => {
      await stopChild(child);
      rmSync(directory, { recursive: true });
    },
  };
};
