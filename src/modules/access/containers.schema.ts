// The schema of a container path.
import { z } from 'zod';
import { CONTAINER_LENGTH_MAX, containerPattern } from './containers.ts';

export const containerPath = z.string().max(CONTAINER_LENGTH_MAX).regex(containerPattern).meta({
  description: 'A path of names between slashes. Letters, digits, _ and -; upper and lower case are the same.',
  example: '/pci/high/',
});
