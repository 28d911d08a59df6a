import { linkOverHttp } from '../../../src/renderer/link/http.ts'
import { WindowServer } from '../../../src/serve/http/window-server.ts'
import { temporaryFolder } from '../temporary-folder.ts'
import type { Carrier } from './carrier.ts'
import { writeWindow } from './window-folder.ts'

export const httpCarrier: Carrier = {
  name: 'loopback HTTP',
  trust: 'page',
  async start(door) {
    const folder = await temporaryFolder()
    await writeWindow(folder.dir)
    const errors: unknown[] = []
    const server = new WindowServer({ door, folder: folder.dir, onError: (error) => errors.push(error) })
    const url = new URL(await server.open())
    const stored = new Map<string, string>()
    const link = linkOverHttp({
      origin: url.origin,
      token: new URLSearchParams(url.hash.slice(1)).get('token') ?? undefined,
      storage: {
        getItem: (key) => stored.get(key) ?? null,
        setItem: (key, value) => void stored.set(key, value),
        removeItem: (key) => void stored.delete(key),
      },
    })
    return {
      link,
      errors,
      end: () => server.close(),
      async [Symbol.asyncDispose]() {
        await server.close()
        await folder[Symbol.asyncDispose]()
      },
    }
  },
}
