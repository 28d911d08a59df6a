import { renameSync, writeFileSync } from 'node:fs'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { KubeconfigError } from '../../../src/agent-core/kube/kubeconfig.ts'
import { PinnedContext } from '../../../src/agent-core/kube/pinned-context.ts'

let folder: string
let homeLab: string
let office: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'metalbar-kubeconfig-'))
  homeLab = await kubeconfig('homelab', 'https://192.0.2.10:6443')
  office = await kubeconfig('office', 'https://192.0.2.20:6443')
})
afterAll(() => rm(folder, { recursive: true, force: true }))

test('the flag wins over KUBECONFIG, and its current context is taken', async () => {
  const { name, server } = await PinnedContext.load({ file: office, env: { KUBECONFIG: homeLab } })
  expect([name, server]).toEqual(['office', 'https://192.0.2.20:6443'])
})

test('several files of KUBECONFIG are one, the first names the current context, and a missing one is skipped', async () => {
  const env = { KUBECONFIG: [homeLab, join(folder, 'missing'), office].join(delimiter) }
  const first = await PinnedContext.load({ env })
  const chosen = await PinnedContext.load({ context: 'office', env })
  expect([first.name, chosen.name, chosen.server]).toEqual(['homelab', 'office', 'https://192.0.2.20:6443'])
})

test.each([
  ['a missing file', () => join(folder, 'nowhere'), undefined, /There is no kubeconfig at .*nowhere; .*--kubeconfig/],
  ['broken YAML', () => write('broken', 'clusters: [\n  oops'), undefined, /broken is not valid: .*\. Correct it/],
  [
    'an unknown context',
    () => homeLab,
    'mars',
    /no context "mars"; it has homelab\. Bring it back, or choose one with .*--context/,
  ],
  ['no current context', () => write('empty', 'apiVersion: v1\nkind: Config\n'), undefined, /has no contexts at all/],
  [
    'a context without its cluster',
    () => write('half', 'contexts:\n- {name: a, context: {cluster: gone, user: u}}\ncurrent-context: a\n'),
    undefined,
    /names the cluster "gone", which the kubeconfig does not contain/,
  ],
  ['a folder', () => folder, undefined, /cannot be read/],
  [
    'credentials over plain http',
    () => kubeconfig('plain', 'http://192.0.2.40:8080'),
    undefined,
    /anyone on the network could read its credentials; use https:\/\/, or set insecure-skip-tls-verify/,
  ],
])('%s is refused with one sentence', async (_what, file, context, sentence) => {
  const attempt = PinnedContext.load({ file: await file(), context, env: {} })
  await expect(attempt).rejects.toThrow(KubeconfigError)
  await expect(attempt).rejects.toThrow(sentence)
})

test('a change while the credentials are being read counts, at whatever moment it comes', async () => {
  const server = 'https://192.0.2.30:6443'
  const next = join(folder, 'next')
  const after = await readFile(await kubeconfig('changing', server, 'after'))
  const file = await kubeconfig('changing', server, 'before')
  const before = await readFile(file)
  const context = await PinnedContext.load({ file, env: {} })
  const tokens: unknown[] = []
  for (let turns = 0; turns < 12; turns += 1) {
    await writeFile(file, before)
    await context.renew()
    const earlier = context.renew()
    for (let turn = 0; turn < turns; turn += 1) await new Promise((resolve) => setImmediate(resolve))
    writeFileSync(next, after)
    renameSync(next, file)
    await Promise.all([earlier, context.renewAfterChange()])
    tokens.push((await context.connection.authenticated()).headers['authorization'])
  }
  expect(new Set(tokens)).toEqual(new Set(['Bearer after']))
})

test('renewing takes new credentials but never another server', async () => {
  const file = await kubeconfig('moving', 'https://192.0.2.30:6443', 'old')
  const context = await PinnedContext.load({ file, env: {} })
  await kubeconfig('moving', 'https://192.0.2.30:6443', 'new')
  await context.renew()
  const asked = async () => (await context.connection.authenticated()).headers['authorization']
  const token = await asked()
  await kubeconfig('moving', 'https://192.0.2.31:6443', 'newer')
  await expect(context.renew()).rejects.toThrow(/now points to https:\/\/192\.0\.2\.31:6443/)
  expect([token, await asked()]).toEqual(['Bearer new', 'Bearer new'])
})

async function kubeconfig(name: string, server: string, token = 'secret'): Promise<string> {
  return write(
    name,
    [
      'apiVersion: v1',
      'kind: Config',
      `current-context: ${name}`,
      `clusters: [{name: ${name}, cluster: {server: "${server}"}}]`,
      `users: [{name: ${name}, user: {token: ${token}}}]`,
      `contexts: [{name: ${name}, context: {cluster: ${name}, user: ${name}}}]`,
    ].join('\n'),
  )
}

async function write(name: string, text: string): Promise<string> {
  const file = join(folder, name)
  await writeFile(file, text)
  return file
}
