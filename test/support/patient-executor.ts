// An executor that is ready when it gets SIGUSR2.
import { Socket } from 'node:net';
import { encodeFrame, frameKinds } from '../../src/platform/sandbox/protocol/frames.ts';

const socket = new Socket({ fd: 3 });
socket.on('close', () => process.exit(0));
socket.resume();
process.on('SIGUSR2', () => socket.write(encodeFrame(frameKinds.READY, 0, {})));
