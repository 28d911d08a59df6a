import { parentPort } from 'node:worker_threads'
import { z } from 'zod'
import { tensorsEnd } from './mlx.ts'

parentPort?.on('message', (header) => parentPort?.postMessage(tensorsEnd(z.instanceof(Uint8Array).parse(header))))
