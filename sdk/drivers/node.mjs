// Drives the ES module of the client for Node.
import * as sdk from '@strongroom/node';
import { run } from './driver.cjs';

run(sdk);
