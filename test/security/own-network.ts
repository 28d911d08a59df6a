import { execFile } from 'node:child_process'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { ModelError } from '../../src/agent-core/models/errors.ts'
import { messageOf } from '../../src/agent-core/util/message-of.ts'
import { Models } from '../../src/agent-core/models/models.ts'
import { silentLog } from '../support/silent-log.ts'
import { freePort } from '../support/free-port.ts'

/**
 * A machine with public addresses of its own, as a process in a network namespace: it serves one file to everybody and another to nobody,
 * lets a store fetch from many addresses of its own network, and prints how each attempt went.
 */
const own6 = '2a00:1450:4001:81c::10'
const neighbour = '2a00:1450:4001:81c::20'
const later = '2a00:1450:4001:99::1'
const own4 = '81.2.69.142'
const hex4 = '5102:458e'

const run = promisify(execFile)
const ip = async (command: string): Promise<unknown> => run('ip', command.split(' '))
await ip('link add wan type veth peer name isp')
await ip(`address add ${own6}/64 dev wan nodad`)
await ip(`address add ${own4}/28 dev wan`)
// A tunnel that calls half of the internet its own.
await ip('address add 9.9.9.1/1 dev isp noprefixroute')
await ip('link set wan up')
await ip('link set isp up')

const asked: string[] = []
const server = createServer(({ url = '', headers, socket }, response) => {
  asked.push(`${headers.host ?? ''}${url}`)
  if (url === '/login.gguf') response.writeHead(401).end()
  else if (url === '/hop.gguf')
    response.writeHead(302, { location: `http://[${own6}]:${socket.localPort}/m.gguf` }).end()
  else response.end(Buffer.concat([Buffer.from('GGUF'), Buffer.alloc(4_092)]))
})
await new Promise<void>((resolve) => server.listen(0, '::', resolve))
const { port } = server.address() as AddressInfo // a TCP server that listens has no other kind
const closed = await freePort()

const directory = await mkdtemp(join(tmpdir(), 'own-network-'))
const attempts: { source: string; reason: string; message: string }[] = []

async function fetches(source: string, allowedDownloadHosts: readonly string[] = []): Promise<void> {
  const models = new Models({
    directory,
    log: silentLog,
    env: {},
    homeDir: '/nowhere',
    attempts: 1,
    allowedDownloadHosts,
    resolveHost: (_, __, callback) => callback(null, [{ address: own6, family: 6 }]),
  })
  models.start()
  const request = { namespace: 'default', name: `m${attempts.length}`, source }
  // A host that is filtered never answers.
  const signal = AbortSignal.timeout(30_000)
  const { reason, message } = await models.ensure(request, { signal }).then(
    () => ({ reason: 'fetched', message: '' }),
    (error: unknown) => (error instanceof ModelError ? error : { reason: 'none', message: messageOf(error) }),
  )
  attempts.push({ source, reason, message: message.replace(/(from|--allowed-download-hosts) [^ ,]+/g, '$1 HOST') })
  await models.stop()
}

await fetches(`http://[${own6}]:${port}/m.gguf`)
await fetches(`http://[${own6}]:${port}/login.gguf`)
await fetches(`http://[${own6}]:${closed}/m.gguf`)
await fetches(`http://[${neighbour}]:${port}/m.gguf`)
await fetches(`http://${own4}:${port}/m.gguf`)
for (const embedded of [`::ffff:${hex4}`, `64:ff9b::${hex4}`, `2002:${hex4}::1`]) {
  await fetches(`http://[${embedded}]:${port}/m.gguf`)
}
await fetches(`http://models.example:${port}/m.gguf`)
await fetches(`http://127.0.0.1:${port}/hop.gguf`, ['127.0.0.1'])
await ip(`address add ${later}/128 dev wan nodad`)
await fetches(`http://[${later}]:${port}/m.gguf`)
await fetches('http://[::2]/m.gguf')
await fetches('http://[4000::1]/m.gguf')
const refused = [...attempts]
const askedMeanwhile = asked.filter((one) => !one.startsWith('127.0.0.1'))

attempts.length = 0
await fetches(`http://[${own6}]:${port}/m.gguf`, [`${own6}/64`])
await fetches(`http://${own4}:${port}/m.gguf`, [own4])
await fetches(`http://9.10.1.1:${port}/m.gguf`)
const others = attempts.map(({ reason }) => reason)

await new Promise((resolve) => server.close(resolve))
await rm(directory, { recursive: true })
process.stdout.write(JSON.stringify({ refused, askedMeanwhile, others }))
