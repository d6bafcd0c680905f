// The schema of a container path.
import { z } from 'zod';
import { CONTAINER_LENGTH_MAX, containerPattern } from './containers.ts';

const error = 'must be a container path such as /pci/high/';

export const containerPath = z
  .string(error)
  .max(CONTAINER_LENGTH_MAX, { error, abort: true })
  .regex(containerPattern, error)
  .meta({
    description: 'A path of names between slashes. Letters, digits, _ and -; upper and lower case are the same.',
    example: '/pci/high/',
  });
