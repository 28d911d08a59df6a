import { access, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, expect, test, vi } from 'vitest'
import { KubeApi } from '../../../src/agent-core/kube/kube-api.ts'
import { requestTimeoutMs } from '../../../src/agent-core/kube/kube-transport.ts'
import { PinnedContext } from '../../../src/agent-core/kube/pinned-context.ts'
import { resources } from '../../../src/agent-core/kube/resources.ts'
import { eventually } from '../../support/eventually.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

afterEach(() => {
  vi.useRealTimers()
})

test('an exec plugin that hangs holds up no request for longer than a server would', async () => {
  await using folder = await temporaryFolder()
  const started = join(folder.dir, 'started')
  const file = join(folder.dir, 'kubeconfig')
  await writeFile(file, JSON.stringify(kubeconfigWithPlugin(`touch ${started}; sleep 20`)))
  const api = new KubeApi(await PinnedContext.load({ file, env: {} }))
  const giveUp = new AbortController()
  const groups = api.groups(giveUp.signal)
  await eventually(() => access(started).then(() => true), { what: 'the plugin being asked' })
  giveUp.abort()
  await expect(groups).rejects.toThrow(/gave no credentials in time; is its exec plugin waiting/)
})

test('a plugin that hangs while a watch is opened is not taken for a watch on which nothing happens', async () => {
  await using folder = await temporaryFolder()
  const started = join(folder.dir, 'started')
  const file = join(folder.dir, 'kubeconfig')
  await writeFile(file, JSON.stringify(kubeconfigWithPlugin(`touch ${started}; sleep 20`)))
  const api = new KubeApi(await PinnedContext.load({ file, env: {} }))
  const query = { namespace: undefined, labelSelector: undefined, resourceVersion: '1', timeoutSeconds: 150 }
  const onOpen = vi.fn()
  const { signal } = new AbortController()
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  const first = api.watch(resources.models, query, { silenceMs: 180_000, onOpen, signal }).next()
  vi.advanceTimersByTime(requestTimeoutMs)
  await expect(first).rejects.toThrow(/gave no credentials in time; is its exec plugin waiting/)
  expect(onOpen).not.toHaveBeenCalled()
})

test('a step of the clock of this machine does not reach what is said in the time of the server', async () => {
  await using folder = await temporaryFolder()
  const file = join(folder.dir, 'kubeconfig')
  await writeFile(file, JSON.stringify(kubeconfigWithPlugin('true')))
  const api = new KubeApi(await PinnedContext.load({ file, env: {} }))
  const before = api.serverNow()
  vi.useFakeTimers({ toFake: ['Date'], now: before - 3_600_000 })
  expect(Math.abs(api.serverNow() - before)).toBeLessThan(60_000)
})

const kubeconfigWithPlugin = (script: string): object => ({
  apiVersion: 'v1',
  kind: 'Config',
  'current-context': 'lab',
  clusters: [{ name: 'lab', cluster: { server: 'https://192.0.2.1:6443' } }],
  contexts: [{ name: 'lab', context: { cluster: 'lab', user: 'me' } }],
  users: [
    {
      name: 'me',
      user: {
        exec: {
          apiVersion: 'client.authentication.k8s.io/v1',
          command: 'sh',
          args: ['-c', script],
          interactiveMode: 'Never',
        },
      },
    },
  ],
})
