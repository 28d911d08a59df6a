import { access, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { KubeApi } from '../../../src/agent-core/kube/kube-api.ts'
import { PinnedContext } from '../../../src/agent-core/kube/pinned-context.ts'
import { eventually } from '../../support/eventually.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

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
