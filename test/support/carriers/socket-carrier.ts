import path from 'node:path'
import { connectToAgent } from '../../../src/serve/client/agent-client.ts'
import { serveOnSocket } from '../../../src/serve/socket-server.ts'
import { temporaryFolder } from '../temporary-folder.ts'
import type { Carrier } from './carrier.ts'

export const socketCarrier: Carrier = {
  name: 'unix socket',
  trust: 'shell',
  async start(door) {
    const folder = await temporaryFolder()
    const socketPath = path.join(folder.dir, 'agent.sock')
    const errors: unknown[] = []
    const onError = (error: unknown) => errors.push(error)
    const result = await serveOnSocket({ socketPath, stateDir: folder.dir, version: '1.2.3', door, onError })
    if (!result.ok) throw new Error(result.message)
    const { server } = result
    const link = await connectToAgent({ socketPath, stateDir: folder.dir })
    return {
      link,
      errors,
      end: () => server.close(),
      async [Symbol.asyncDispose]() {
        await link.close()
        await server.close()
        await folder[Symbol.asyncDispose]()
      },
    }
  },
}
