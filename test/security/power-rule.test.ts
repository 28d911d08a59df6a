import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import { expect, test } from 'vitest'
import { fragmentFor, leaveIn, matchesArguments } from '../../src/agent-core/power/sudoers.ts'
import { readIfThere } from '../../src/agent-core/util/files.ts'
import { exactArguments, nearMisses } from '../support/power/command-lines.ts'
import { missingSudo, SudoNamespace } from '../support/power/sudo-namespace.ts'
import { skipWhen } from '../support/skip.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

skipWhen(missingSudo())

const installed = '/etc/sudoers.d/metalbar-powermetrics-65534'
const llmkube = String.raw`nobody ALL = (root) NOPASSWD: /usr/bin/powermetrics --samplers cpu_power\,gpu_power -i [0-9]*`
const putLlmkube = ['sh', '-c', `printf '%s\\n' "$1" > /etc/sudoers.d/llmkube; chmod 0440 /etc/sudoers.d/llmkube`, 'sh']

/** What the real sudo runs as root without a password. */
async function passed(sudo: SudoNamespace, lines: readonly (readonly string[])[]): Promise<(readonly string[])[]> {
  const runs = lines.map(
    (args) => `sudo -n /usr/bin/powermetrics ${args.map(quoted).join(' ')} >/dev/null 2>&1; echo $?\n`,
  )
  const { stdout } = await sudo.asNobody('sh', '-c', runs.join(''))
  const codes = stdout.split('\n')
  expect(codes).toHaveLength(lines.length)
  return lines.filter((_, index) => codes[index] === '0')
}

const quoted = (word: string): string => `'${word.replaceAll("'", String.raw`'\''`)}'`

test('what power install writes lets exactly its command lines pass, and power remove takes them back', async () => {
  await using sudo = await SudoNamespace.open()
  const status = () => sudo.metalAgent('nobody', 'power', 'status')
  expect(await status()).toEqual({
    code: 1,
    stdout: `sudo does not let nobody measure power without a password: run metal-agent power install.\n${installed} is not installed.`,
    stderr: '',
  })

  expect(await sudo.metalAgent('root', 'power', 'install', '--user', 'nobody')).toMatchObject({ code: 0, stderr: '' })
  expect((await sudo.asRoot('stat', '-c', '%a %u:%g', installed)).stdout).toBe('440 0:0')
  expect((await sudo.asRoot('cat', installed)).stdout).toBe(fragmentFor({ name: 'nobody', id: 65_534 }).trimEnd())
  expect((await sudo.asRoot('visudo', '-c')).code).toBe(0)
  expect(await status()).toEqual({
    code: 0,
    stdout: `sudo lets nobody measure power without a password every 500ms, 1s, 2s, 5s, 10s.\n${installed} is installed.`,
    stderr: '',
  })
  expect(await passed(sudo, [...exactArguments, ...nearMisses])).toEqual(exactArguments)
  const [first = []] = exactArguments
  const asRoot = await sudo.asNobody('sudo', '-n', '/usr/bin/powermetrics', ...first)
  const asDaemon = await sudo.asNobody('sudo', '-n', '-u', 'daemon', '/usr/bin/powermetrics', ...first)
  expect([asRoot, asDaemon]).toMatchObject([{ code: 0, stdout: `0: ${first.join(' ')}` }, { code: 1 }])

  expect(await sudo.metalAgent('root', 'power', 'remove', '--user', 'nobody')).toMatchObject({ code: 0 })
  expect(await passed(sudo, exactArguments)).toEqual([])
})

test('nothing of the environment of who installs the rule decides what runs as root', async () => {
  await using sudo = await SudoNamespace.open()
  await using folder = await temporaryFolder()
  const ran = path.join(folder.dir, 'ran')
  for (const name of ['cat', 'chown', 'chmod', 'mv', 'rm', 'sh']) {
    await writeFile(path.join(folder.dir, name), `#!/bin/sh\necho ${name} >> ${ran}\n`, { mode: 0o755 })
  }
  await sudo.asRoot('sh', '-c', "printf 'Defaults !secure_path, !env_reset\n' >> /etc/sudoers")
  const changes = [`PATH=${folder.dir}:/usr/bin:/bin`, `BASH_FUNC_chmod%%=() { echo chmod >> ${ran}; }`]
  const install = await sudo.metalAgentWith(changes, 'root', 'power', 'install', '--user', 'nobody')
  expect([await readIfThere(ran), install.code]).toEqual([undefined, 0])
  expect(await passed(sudo, exactArguments)).toEqual(exactArguments)
})

test('an administrator whom sudo does not tell what another user may do is told so, and that the rule is written', async () => {
  await using sudo = await SudoNamespace.open()
  const rules = 'nobody ALL=(ALL) ALL, NOPASSWD: /bin/sh\\nDefaults listpw=always\\n'
  await sudo.asRoot('sh', '-c', `printf '${rules}' >> /etc/sudoers`)
  const notKnown =
    'Whether sudo lets daemon measure power is not known, because sudo asks for a password before it answers that about another user: have daemon run metal-agent power status.'
  const install = await sudo.metalAgent('nobody', 'power', 'install', '--user', 'daemon')
  expect([install.code, install.stderr, install.stdout.split('\n').at(-1)]).toEqual([
    0,
    '',
    `/etc/sudoers.d/metalbar-powermetrics-1 is written. ${notKnown}`,
  ])
  const { code, stdout } = await sudo.metalAgent('nobody', 'power', 'status', '--user', 'daemon')
  expect([code, stdout.split('\n')[0]]).toEqual([1, notKnown])
})

test('for all that comes close, our model of sudo says what the real one does, of our rule and of one with a wildcard', async () => {
  await using sudo = await SudoNamespace.open()
  await sudo.asRoot(...putLlmkube, llmkube)
  const pattern = llmkube.split('powermetrics ')[1] ?? ''
  const lines = [...exactArguments, ...nearMisses]
  expect(await passed(sudo, lines)).toEqual(lines.filter((args) => matchesArguments(pattern, args)))
})

test("LLMKube's rule is usable, and named as too wide", async () => {
  await using sudo = await SudoNamespace.open()
  await sudo.asRoot(...putLlmkube, llmkube)
  const { code, stdout } = await sudo.metalAgent('nobody', 'power', 'status')
  expect(code).toBe(0)
  expect(stdout).toContain("LLMKube's rule is too wide")
  expect(leaveIn((await sudo.asNobody('sudo', '-n', '-l')).stdout).intervalsMs).toHaveLength(5)
})

test('visudo accepts the rule for a user of any name', async () => {
  await using sudo = await SudoNamespace.open()
  await using folder = await temporaryFolder()
  for (const name of ['alice', 'first.last', '_spotlight', 'ALL', '%admin', 'LAB\\alice', 'a b', 'é', 'a\nb']) {
    const file = path.join(folder.dir, 'rule')
    await writeFile(file, fragmentFor({ name, id: 501 }))
    expect({ name, ...(await sudo.asRoot('visudo', '-cf', file)) }).toMatchObject({ name, code: 0 })
  }
})

test('what cannot be installed is said, and changes nothing', async () => {
  await using sudo = await SudoNamespace.open()
  const missing = await sudo.metalAgent('root', 'power', 'install', '--user', 'no-such-user')
  const nameless = await sudo.metalAgent('root', 'power', 'install')
  const refused = await sudo.metalAgent('nobody', 'power', 'install')
  const printed = await sudo.metalAgent('nobody', 'power', 'install', '--dry-run')
  expect([missing, nameless, printed].map(({ code, stderr }) => ({ code, stderr }))).toEqual([
    { code: 2, stderr: 'metal-agent: There is no user "no-such-user" on this machine.' },
    {
      code: 2,
      stderr: 'metal-agent: The rule is for the user whose agent measures power: name that user with --user.',
    },
    { code: 0, stderr: '' },
  ])
  expect(printed.stdout).toBe(fragmentFor({ name: 'nobody', id: 65_534 }).trimEnd())
  expect({ code: refused.code, last: refused.stderr.split('\n').at(-1) }).toEqual({
    code: 1,
    last: `metal-agent: ${installed} was not written: sudo ended with exit code 1.`,
  })
  expect((await sudo.asRoot('ls', '/etc/sudoers.d')).stdout).toBe('')
})
