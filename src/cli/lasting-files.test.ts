// Which paths go with a container, by what engines write into /proc/self/mountinfo.
import { expect, test } from 'vitest';
import { placeLost } from './lasting-files.ts';

/** A container of docker compose: read-only root, /tmp in memory, a volume at /files, a directory of the host and a secret. */
const compose = `
601 411 0:52 / / ro,relatime master:283 - overlay overlay rw,lowerdir=/var/lib/docker/overlay2/l/A,upperdir=/var/lib/docker/overlay2/x/diff
602 601 0:55 / /proc rw,nosuid,nodev,noexec,relatime - proc proc rw
604 603 0:56 / /dev rw,nosuid - tmpfs tmpfs rw,size=65536k,mode=755
606 604 0:54 / /dev/shm rw,nosuid,nodev,noexec,relatime - tmpfs shm rw,size=65536k
609 601 0:59 / /tmp rw,nosuid,nodev,noexec,relatime - tmpfs tmpfs rw
610 601 254:1 /var/lib/docker/volumes/strongroom_files/_data /files rw,relatime - ext4 /dev/vda1 rw
611 601 254:1 /home/ada/a\\040b /back\\040ups rw,relatime - ext4 /dev/vda1 rw
612 601 0:25 /scratch /host-tmp rw,nosuid - tmpfs tmpfs rw
613 601 254:1 /home/ada/secrets/master_key /run/secrets/master_key ro,relatime - ext4 /dev/vda1 rw
`;

/** A pod: an emptyDir on the disk of the node, one in memory, and a claimed volume. */
const pod = `
700 500 0:80 / / ro,relatime - overlay overlay rw
701 700 259:1 /var/lib/kubelet/pods/0b1f/volumes/kubernetes.io~empty-dir/scratch /scratch rw - ext4 /dev/nvme0n1p1 rw
702 700 0:81 / /tmp rw - tmpfs tmpfs rw,size=262144k
703 700 259:3 / /backups rw - ext4 /dev/nvme1n1 rw
`;

test.for([
  [compose, '/v.age', 'the file system of this container'],
  [compose, '/app/backups/v.age', 'the file system of this container'],
  // A name that begins like a mount is not below it.
  [compose, '/filesystem/v.age', 'the file system of this container'],
  [compose, '/tmp/v.age', 'the memory of this container'],
  [compose, '/dev/shm/v.age', 'the memory of this container'],
  [pod, '/tmp/v.age', 'the memory of this container'],
  [pod, '/scratch/v.age', 'an emptyDir of this pod'],
  [compose, '/files/v.age', undefined],
  [compose, '/files', undefined],
  [compose, '/back ups/2026/v.age', undefined],
  [compose, '/host-tmp/v.age', undefined],
  [pod, '/backups/v.age', undefined],
] as const)('%#: a path in a volume stays, one in the container goes', ([mountinfo, path, place]) => {
  expect(placeLost(path, mountinfo), path).toBe(place);
});

test('of two mounts at one place the later one counts', () => {
  const covered = `${compose}620 601 0:70 / /files rw - tmpfs tmpfs rw\n`;
  expect(placeLost('/files/v.age', covered)).toBe('the memory of this container');
});
