import { access, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { HttpMethod, RequestContext } from '@kubernetes/client-node'
import { expect, test } from 'vitest'
import { PinnedContext } from '../../src/agent-core/kube/pinned-context.ts'
import { askProgram } from '../../src/agent-core/support/ask-program.ts'
import { eventually } from '../support/eventually.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

test('however many requests wait for a credential plugin that hangs, one runs at a time and none outlives its deadline', async () => {
  await using folder = await temporaryFolder()
  const context = await contextWithPlugin(folder.dir, `touch ${folder.dir}/run-$$; sleep 600 & wait`, 2_000)
  const asked = Array.from({ length: 8 }, () => authorization(context))
  const refused = Promise.allSettled(asked)
  await eventually(() =>
    access(join(folder.dir, 'kubeconfig')).then(() => runs(folder.dir).then((all) => all.length === 1)),
  )
  await context.renew()
  const afterRenewal = authorization(context)
  await expect(afterRenewal).rejects.toThrow('did not answer within 2000 ms')
  expect((await refused).map(({ status }) => status)).toEqual(Array.from({ length: 8 }, () => 'rejected'))
  expect(await runs(folder.dir)).toHaveLength(1)
  expect(
    (await askProgram({ command: 'ps', args: ['-eo', 'args'], env: {}, timeLimitMs: 20_000 })).stdout,
  ).not.toContain(folder.dir)
})

test('a plugin has nobody at its input, and what it says is used until it expires or credentials are renewed', async () => {
  await using folder = await temporaryFolder()
  const answer = `{"kind":"ExecCredential","status":{"token":"'$count'"}}`
  const script = `cat; count=$(ls ${folder.dir} | wc -l); touch ${folder.dir}/run-$$; echo '${answer}'`
  const context = await contextWithPlugin(folder.dir, script, 20_000)
  const [first, again] = [await authorization(context), await authorization(context)]
  expect(first).toMatch(/^Bearer \d+$/)
  expect(again).toBe(first)
  await context.renew()
  expect(await authorization(context)).not.toBe(first)
})

test('what a plugin says is used until it expires, and no request with another question gets it', async () => {
  await using folder = await temporaryFolder()
  const plugin = (expiry: string) =>
    `count=$(ls ${folder.dir} | wc -l); touch ${folder.dir}/run-$$; echo '{"status":{"token":"'$count'","expirationTimestamp":"${expiry}"}}'`
  const lasting = await contextWithPlugin(folder.dir, plugin('2999-01-01T00:00:00Z'), 20_000)
  expect(await authorization(lasting)).toBe(await authorization(lasting))
  const expired = await contextWithPlugin(folder.dir, plugin('2020-01-01T00:00:00Z'), 20_000)
  expect(await authorization(expired)).not.toBe(await authorization(expired))

  const waits = `until test -e ${folder.dir}/go; do sleep 0.05; done; ${tokenOf('before')}`
  const context = await contextWithPlugin(folder.dir, waits, 20_000)
  const before = authorization(context)
  await contextWithPlugin(folder.dir, tokenOf('after'), 20_000)
  await context.renew()
  const after = authorization(context)
  await writeFile(join(folder.dir, 'go'), '')
  expect(await Promise.all([before, after])).toEqual(['Bearer before', 'Bearer after'])
})

test('a plugin that fails is told with what it said, and one that prints nonsense by its name', async () => {
  await using folder = await temporaryFolder()
  const failing = await contextWithPlugin(folder.dir, 'echo log in first >&2; exit 1', 20_000)
  await expect(authorization(failing)).rejects.toThrow(
    'The credential plugin /bin/sh of the kubeconfig failed: log in first',
  )
  const confused = await contextWithPlugin(folder.dir, 'echo hello', 20_000)
  await expect(authorization(confused)).rejects.toThrow('/bin/sh of the kubeconfig printed no ExecCredential.')
})

const tokenOf = (token: string): string => `echo '{"status":{"token":"${token}"}}'`

const runs = async (dir: string): Promise<string[]> => (await readdir(dir)).filter((name) => name.startsWith('run-'))

async function authorization({ config, server }: PinnedContext): Promise<string | undefined> {
  const request = new RequestContext(server, HttpMethod.GET)
  await config.applySecurityAuthentication(request)
  return request.getHeaders()['Authorization']
}

async function contextWithPlugin(dir: string, script: string, pluginTimeLimitMs: number): Promise<PinnedContext> {
  const file = join(dir, 'kubeconfig')
  const exec = { apiVersion: 'client.authentication.k8s.io/v1', command: '/bin/sh', args: ['-c', script] }
  const kubeconfig = {
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'lab',
    clusters: [{ name: 'lab', cluster: { server: 'https://192.0.2.1:6443' } }],
    contexts: [{ name: 'lab', context: { cluster: 'lab', user: 'me' } }],
    users: [{ name: 'me', user: { exec } }],
  }
  await writeFile(file, JSON.stringify(kubeconfig))
  return PinnedContext.load({ file, env: { PATH: '/usr/bin:/bin' }, pluginTimeLimitMs })
}
