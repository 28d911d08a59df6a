import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ContextPin } from '../../../src/agent-core/cluster/cluster-choice.ts'
import { KubeApi } from '../../../src/agent-core/kube/kube-api.ts'
import { PinnedContext } from '../../../src/agent-core/kube/pinned-context.ts'
import { eventually } from '../../support/eventually.ts'
import { KubeSim } from '../../support/kube-sim/kube-sim.ts'
import { Recorder } from '../../support/running-agent.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const token = 'kube-sim-admin-token'

test('a login that takes longer than one look at a moved cluster is waited for, and not begun a second time', async () => {
  await using sim = await KubeSim.start({ namespaces: ['default', 'kube-system'] })
  await using folder = await temporaryFolder()
  const [file, runs, loggedIn] = ['kubeconfig', 'runs', 'logged-in'].map((name) => join(folder.dir, name)) as [
    string,
    string,
    string,
  ]
  const load = async (server: string, user: object): Promise<PinnedContext> => {
    await writeFile(file, kubeconfigOf(server, user))
    return PinnedContext.load({ file, context: 'lab', env: process.env })
  }
  const pin = await ContextPin.open({ stateDir: folder.dir, log: new Recorder() })
  await pin.reached(new KubeApi(await load(sim.url, { token })))

  const moved = sim.url.replace('127.0.0.1', 'localhost')
  const plugin = {
    exec: { apiVersion: version, interactiveMode: 'Never', command: '/bin/sh', args: ['-c', login(runs, loggedIn)] },
  }
  await expect(pin.check(await load(moved, plugin))).rejects.toThrow('nothing shows that it is the same cluster')
  await writeFile(loggedIn, '')
  const served = await eventually(async () => pin.check(await load(moved, plugin)).catch(() => undefined), {
    timeoutMs: 40_000,
    what: 'the moved cluster known as the same',
  })
  expect(served.server).toBe(moved)
  expect(await readFile(runs, 'utf8')).toBe('run\n')
}, 60_000)

test('a moved cluster that nobody may recognise is not taken for the one before', async () => {
  await using sim = await KubeSim.start({ namespaces: ['default'] })
  await using folder = await temporaryFolder()
  const file = join(folder.dir, 'kubeconfig')
  const load = async (server: string): Promise<PinnedContext> => {
    await writeFile(file, kubeconfigOf(server, { token }))
    return PinnedContext.load({ file, context: 'lab', env: process.env })
  }
  const pin = await ContextPin.open({ stateDir: folder.dir, log: new Recorder() })
  await pin.reached(new KubeApi(await load(sim.url)))
  const moved = await load(sim.url.replace('127.0.0.1', 'localhost'))
  await expect(pin.check(moved)).rejects.toThrow('nothing shows that it is the same cluster')
})

/** Ends once a person has logged in. */
const version = 'client.authentication.k8s.io/v1'

const login = (runs: string, loggedIn: string): string => {
  const credential = { apiVersion: version, kind: 'ExecCredential', status: { token } }
  return `echo run >>'${runs}'; until [ -e '${loggedIn}' ]; do sleep 0.1; done; echo '${JSON.stringify(credential)}'`
}

const kubeconfigOf = (server: string, user: object): string =>
  JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'lab',
    clusters: [{ name: 'lab', cluster: { server, 'insecure-skip-tls-verify': true } }],
    users: [{ name: 'admin', user }],
    contexts: [{ name: 'lab', context: { cluster: 'lab', user: 'admin' } }],
  })
