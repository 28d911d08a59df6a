import { createServer } from 'node:http'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { execa } from 'execa'
import { describe, expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { judgeDials, probePod, type ProbeTarget } from '../../../src/agent-core/doctor/from-cluster.ts'
import { freePort } from '../../support/free-port.ts'
import { createNetworkNamespace, type NetworkNamespace } from '../../support/network-namespace.ts'
import { missingNetworkNamespaces, skipWhen } from '../../support/skip.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const target: ProbeTarget = {
  ...{ namespace: 'models', name: 'tiny', uid: 'u', serviceName: 'tiny', servicePort: 8080 },
  ...{ address: '192.168.1.20', port: 50_001 },
}
const script = z.object({ spec: z.object({ containers: z.array(z.object({ command: z.array(z.string()) })) }) })

/** The script of the Pod, run by `sh` with the wget of this machine: here, or where `enter` leads. */
async function runHere(
  serviceUrl: string,
  addressUrl: string,
  enter: (command: readonly string[]) => readonly string[] = (command) => command,
) {
  await using folder = await temporaryFolder()
  const file = join(folder.dir, 'termination-log')
  const [container] = script.parse(probePod(target, 'busybox:1.37', 'probe')).spec.containers
  const text = container?.command[2]?.replace('/dev/termination-log', file) ?? ''
  const [command = '', ...args] = enter(['sh', '-c', text])
  await execa(command, args, { env: { SERVICE_URL: serviceUrl, ADDRESS_URL: addressUrl } })
  return judgeDials(await readFile(file, 'utf8'), target)
}

test('the script of the Pod tells by the wget of this machine what became of both', async () => {
  const server = createServer((request, response) => {
    response.writeHead(request.url === '/well' ? 200 : 503).end('so it is')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  const at = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const nobody = `http://127.0.0.1:${await freePort()}`
  const hops = await Promise.all([
    runHere(`${at}/well`, `${at}/well`),
    runHere(`${at}/ill?option`, `${at}/ill`),
    runHere(nobody, nobody),
    runHere(nobody, `${at}/well`),
    runHere('http://tiny.invalid/health', `${at}/well`),
  ])
  expect(hops.map((view) => view?.hop)).toEqual(['reached', 'status', 'refused', 'endpoints', 'dns'])
})

describe('a firewall between the Pod and this machine', () => {
  skipWhen(missingNetworkNamespaces())

  test.each([
    ['drops what is sent', (node: NetworkNamespace) => node.drops(), 'timedOut', /drops it/],
    ['rejects it', (node: NetworkNamespace) => node.rejects(), 'timedOut', /have no route/],
    ['lets it pass', () => Promise.resolve(), 'reached', /^A Pod in models reached/],
  ])('that %s', async (_what, stand, hop, says) => {
    await using node = await createNetworkNamespace()
    const server = createServer((_request, response) => response.end('well')).listen(0, node.here)
    await once(server, 'listening')
    onTestFinished(() => void server.close())
    await stand(node)
    const at = `http://${node.here}:${(server.address() as AddressInfo).port}/health`
    expect(await runHere(at, at, (command) => node.enter(command))).toMatchObject({
      hop,
      says: expect.stringMatching(says) as string,
    })
  })
})

/** As the script in the Pod writes them, each with what `wget` printed. */
const dials = (service: string, address: string) => `service ${service}\naddress ${address}\n`
const well = '0 Connecting to tiny.models (10.96.0.7:8080)'

describe('what wget says inside a Pod, BusyBox and GNU alike', () => {
  test.each([
    ['both answer', well, well, 'reached', /^A Pod in models reached tiny\.models:8080/],
    ['BusyBox knows no name', "1 wget: bad address 'tiny.models:8080'", well, 'dns', /cannot resolve the name/],
    ['GNU knows no name', "4 wget: unable to resolve host address 'tiny.models'", well, 'dns', /DNS of the cluster/],
    [
      'the Service forwards nowhere',
      "1 wget: can't connect to remote host (10.96.0.7): Connection refused",
      well,
      'endpoints',
      /reaches 192\.168\.1\.20:50001, but not by its Service/,
    ],
    [
      'the Mac refuses',
      "1 wget: can't connect to remote host (10.96.0.7): Connection refused",
      "1 wget: can't connect to remote host (192.168.1.20): Connection refused",
      'refused',
      /refuses it: nothing is listening there, or a firewall/,
    ],
    ['BusyBox gets no answer', '1 wget: download timed out', '1 wget: download timed out', 'timedOut', /drops it/],
    [
      'GNU gets no answer',
      '4 failed: Connection timed out. Giving up.',
      '4 failed: Connection timed out. Giving up.',
      'timedOut',
      /NetworkPolicy/,
    ],
    [
      'there is no way',
      '1 wget: download timed out',
      "1 wget: can't connect to remote host (192.168.1.20): No route to host",
      'timedOut',
      /have no route .* host-ip set/,
    ],
    [
      'BusyBox is cut off',
      '1 wget: error getting response: Connection reset by peer',
      '1 wget: error getting response',
      'reset',
      /closed before/,
    ],
    [
      'BusyBox gets a status',
      '1 wget: server returned error: HTTP/1.1 503 Service Unavailable',
      '1 wget: server returned error: HTTP/1.1 503 Service Unavailable',
      'status',
      /answers 503 Service Unavailable/,
    ],
    [
      'GNU gets a status',
      '8 ERROR 503: Service Unavailable.',
      '8 ERROR 503: Service Unavailable.',
      'status',
      /answers 503: Service Unavailable/,
    ],
    [
      'something else happens',
      '127 sh: wget: not found',
      '127 sh: wget: not found',
      'pod',
      /no usable wget: .*wget: not found/,
    ],
    [
      'the service wants an API key',
      '1 wget: server returned error: HTTP/1.1 401 Unauthorized',
      '1 wget: server returned error: HTTP/1.1 401 Unauthorized',
      'reached',
      /^A Pod in models reached/,
    ],
    [
      'the Service alone gets a status',
      '1 wget: server returned error: HTTP/1.1 503 Service Unavailable',
      well,
      'status',
      /answers 503/,
    ],
  ])('where %s', (_what, service, address, hop, says) => {
    const judged = judgeDials(dials(service, address), target)
    expect(judged).toEqual({ hop, isReached: hop === 'reached', says: expect.stringMatching(says) as string })
  })

  test.each(['', 'service', 'x'.repeat(5_000), 'address 1 a\nservice x b'])(
    'text that the script never writes (%#) says nothing',
    (message) => {
      expect(judgeDials(message, target)).toBeUndefined()
    },
  )
})
