import { once } from 'node:events'
import { connect, createServer, type AddressInfo } from 'node:net'
import { expect, test } from 'vitest'
import { AgentProcess } from '../support/agent-process.ts'
import { agentEntryVariable } from '../support/built-agent/entry.ts'
import { startModelServer, startProxy } from '../support/model-server/model-server.ts'
import { sampleServerPath } from '../support/sample-servers/sample.ts'
import { servingWorld } from '../support/serving-world.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { certificate } from '../unit/models/download/certificates.ts'

/** A SOCKS 5 proxy, for what the agent asks of one: connections, without a login. */
async function startSocksProxy(): Promise<AsyncDisposable & { readonly address: string; seen(): Promise<string[]> }> {
  const seen: string[] = []
  const server = createServer((socket) => {
    socket
      .on('error', () => undefined)
      .once('data', () => {
        socket.write(Buffer.from([5, 0]))
        socket.once('data', (asked) => {
          const isName = asked[3] === 3
          const host = isName ? asked.subarray(5, -2).toString() : asked.subarray(4, -2).join('.')
          const port = asked.readUInt16BE(asked.length - 2)
          const onward = connect(port, host, () => {
            socket.write(Buffer.from([5, 0, 0, 1, 0, 0, 0, 0, 0, 0]))
            onward.pipe(socket).pipe(onward)
          })
          seen.push(`SOCKS ${host}:${port}`)
          onward.on('error', () => socket.destroy())
        })
      })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    address: `socks5://127.0.0.1:${(server.address() as AddressInfo).port}`,
    seen: () => Promise.resolve(seen),
    [Symbol.asyncDispose]: async () => {
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

const startHttpProxy = async () => {
  const proxy = await startProxy()
  return Object.assign(proxy, { address: `http://127.0.0.1:${proxy.port}` })
}

test.for([
  ['CONNECT', startHttpProxy],
  ['SOCKS', startSocksProxy],
] as const)(
  'the agent as it is built asks its cluster through a proxy of the kubeconfig by %s, and for a model through HTTPS_PROXY',
  async ([how, start], { skip }) => {
    expect(process.env[agentEntryVariable]).toMatch(/out\/cli\/metal-agent\.js$/)
    await using folder = await temporaryFolder()
    const made = await certificate(folder.dir, skip, ['-days', '2', '-addext', 'subjectAltName=IP:0.0.0.0'])
    await using models = await startModelServer(made)
    const { url } = await models.serve('/tiny.gguf', { sizeBytes: 5_000, seed: 'a' })
    // Loopback is asked for straight.
    const source = url.replace('127.0.0.1', '0.0.0.0')
    await using toModels = await startProxy()
    await using toCluster = await start()
    await using world = await servingWorld()
    await using agent = await AgentProcess.start({
      kubeconfig: world.sim
        .kubeconfig()
        .replace('cluster: {server', `cluster: {proxy-url: '${toCluster.address}', server`),
      env: { HTTPS_PROXY: `http://127.0.0.1:${toModels.port}` },
      args: [
        ...['--llama-server', sampleServerPath, '--ca-file', made.certificateFile],
        ...['--allowed-download-hosts', '0.0.0.0', '--allow-unsafe-extra-args'],
      ],
    })
    world.apply('chat', {}, source)
    await agent.service('chat', 'ready')
    const server = new URL(world.sim.url).host
    expect(new Set(await toCluster.seen())).toEqual(new Set([`${how} ${server}`]))
    expect(new Set(await toModels.seen())).toEqual(new Set([`CONNECT ${new URL(source).host}`]))
  },
)
