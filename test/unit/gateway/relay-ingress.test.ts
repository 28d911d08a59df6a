import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { chmod, readFile } from 'node:fs/promises'
import path from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { DoorState } from '../../../src/agent-core/gateway/doors.ts'
import { identityFolder, relayIdentity } from '../../../src/agent-core/gateway/relay-identity.ts'
import { RelayIngress } from '../../../src/agent-core/gateway/relay-ingress.ts'
import { eventually } from '../../support/eventually.ts'
import { silentLog } from '../../support/silent-log.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

let stack: AsyncDisposableStack
let stateDir: string
let ingress: RelayIngress
let door: DoorState
let asked: string[]
let told: string[]
let isIpv6: boolean
let askedAt: string[]

beforeEach(async () => {
  stack = new AsyncDisposableStack()
  stateDir = stack.use(await temporaryFolder()).dir
  door = { kind: 'open' }
  asked = []
  told = []
  isIpv6 = false
  askedAt = []
  ingress = stack.use(
    new RelayIngress({
      ...{ stateDir, port: 9_443, log: silentLog, isIpv6: () => isIpv6 },
      door: (address) => {
        askedAt.push(address)
        return door
      },
      ...{ onTold: (when: string) => told.push(when), onState: () => undefined },
      // As fast as it goes.
      pause: (_ms, signal) => new Promise((resolve) => setImmediate(() => resolve(!signal.aborted))),
      api: () => ({
        get: (_resource: unknown, namespace: string) => {
          asked.push(namespace)
          return Promise.resolve({
            metadata: { labels: { 'llmkube.ai/managed-by': 'llmkube-controller' } },
            data: { token: Buffer.from(`of ${namespace}`.replace(' ', '-')).toString('base64') },
          })
        },
      }),
    }),
  )
})
afterEach(() => stack.disposeAsync())

const digest = (token: string): string => createHash('sha256').update(token).digest('hex')

test('it costs nothing while no service is behind it', () => {
  ingress.set('ns/direct', undefined)
  expect([ingress.pin, ingress.told, ingress.notice, asked]).toEqual([undefined, undefined, undefined, []])
  expect([existsSync(identityFolder(stateDir)), told]).toEqual([false, ['soon']])
})

test('with the first service it has an identity and tokens, for the gateway to listen with', async () => {
  ingress.set('ns/one', 'beside')
  expect([ingress.state.kind, ingress.pin]).toEqual(['unknown', undefined])
  await eventually(() => ingress.told?.tokens[0]?.token)
  const { pin, certificate, key } = await relayIdentity(stateDir)
  expect([ingress.pin, ingress.state, ingress.told]).toEqual([
    pin,
    { kind: 'open' },
    { port: 9_443, certificate, key, tokens: [{ namespace: 'ns', token: digest('of-ns') }] },
  ])
  expect(await readFile(path.join(identityFolder(stateDir), 'ingress-key.pem'), 'utf8')).toBe(key)
  ingress.set('other/two', 'alone')
  await eventually(() => ingress.told?.tokens[1]?.token)
  expect(ingress.told?.tokens.map(({ namespace }) => namespace)).toEqual(['ns', 'other'])
  ingress.set('ns/one', undefined)
  ingress.forget('other/two')
  expect([ingress.told, ingress.pin]).toEqual([undefined, pin])
})

test('where an address of IPv6 is published the gateway is told to listen at both families, and asked for that', async () => {
  ingress.set('ns/one', 'alone')
  await eventually(() => ingress.told?.tokens[0]?.token)
  const at = () => [ingress.told?.host, ingress.state.kind, askedAt.at(-1)]
  expect(at()).toEqual([undefined, 'open', '0.0.0.0'])
  isIpv6 = true
  expect(at()).toEqual(['::', 'open', '::'])
})

test('a service of which this agent does not know yet is as it was, and one of a cluster that was left is not reached', () => {
  ingress.set('a/one', 'alone')
  ingress.set('b/two', 'beside')
  ingress.set('b/three', undefined)
  expect(told).toEqual(['at once', 'at once', 'soon'])
  const how = () => ['a/one', 'b/two', 'b/three', 'c/four'].map((key) => ingress.how(key))
  expect(how()).toEqual(['alone', 'beside', undefined, 'unchanged'])
  ingress.forgetWhere((key) => key.startsWith('a/'))
  expect(how()).toEqual([undefined, 'beside', undefined, 'unchanged'])
  ingress.forget('b/two')
  expect(how()).toEqual([undefined, 'unchanged', undefined, 'unchanged'])
})

test('an identity that cannot be used is told until it is mended, and never replaced', async () => {
  const { pin } = await relayIdentity(stateDir)
  const key = path.join(identityFolder(stateDir), 'ingress-key.pem')
  await chmod(key, 0o644)
  ingress.set('ns/one', 'alone')
  const notice = await eventually(() => ingress.notice)
  expect(notice).toMatch(
    /^No relay of the cluster reaches this machine\. The identity .* other users have access to ingress-key\.pem/,
  )
  expect([ingress.state.kind, ingress.pin, ingress.told]).toEqual(['closed', undefined, undefined])
  await chmod(key, 0o600)
  await eventually(() => ingress.pin)
  expect([ingress.notice, ingress.pin, ingress.state.kind]).toEqual([undefined, pin, 'open'])
})

test('a gateway that cannot listen is told while some service is behind it', async () => {
  door = { kind: 'closed', message: 'The gateway cannot listen at 0.0.0.0:9443.' }
  ingress.set('ns/one', 'alone')
  await eventually(() => ingress.pin)
  expect(ingress.notice).toBe(
    'No relay of the cluster reaches this machine. The gateway cannot listen at 0.0.0.0:9443.',
  )
  ingress.forget('ns/one')
  expect(ingress.notice).toBeUndefined()
})
