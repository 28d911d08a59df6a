import { execFileSync, spawnSync } from 'node:child_process'
import { chmod, mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { expect, test } from 'vitest'
import type { CommandInput } from '../../../src/contract/commands.ts'
import {
  changePowerRule,
  measurePower,
  type MeasurePowerOptions,
  powerScript,
} from '../../../src/main/system/measure-power.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const none = { intervalsMs: [] }
const given = { intervalsMs: [1_000] }

/** Terminal is a shell here; `install` is what the app's own command does in it. */
async function trial(install: string, changes: Partial<MeasurePowerOptions> = {}) {
  const folder = await temporaryFolder()
  const program = path.join(folder.dir, "it's $(here)")
  await writeFile(program, `#!/bin/sh\necho "$ELECTRON_RUN_AS_NODE $*" >> "${folder.dir}/ran"\n${install}\n`)
  await chmod(program, 0o755)
  const seen: { shown: string[]; modes: number[]; commands: CommandInput[] } = { shown: [], modes: [], commands: [] }
  const isInstalled = (): boolean => spawnSync('test', ['-e', path.join(folder.dir, 'rule')]).status === 0
  const options: MeasurePowerOptions = {
    link: {
      command: (command) => {
        seen.commands.push(command)
        return Promise.resolve({ outcome: 'done', message: '' })
      },
    },
    temporaryDir: folder.dir,
    own: { program, script: '/an app/cli.js' },
    confirm: (script) => {
      seen.shown.push(script)
      return Promise.resolve(true)
    },
    openFile: async (file) => {
      for (const name of [path.dirname(file), file]) seen.modes.push((await stat(name)).mode & 0o777)
      expect(await readFile(file, 'utf8')).toBe(seen.shown[0])
      spawnSync(file, { env: { PATH: '/usr/bin:/bin' } })
      return ''
    },
    leave: () => Promise.resolve(isInstalled() ? given : none),
    ...changes,
  }
  const left = async () => (await readdir(folder.dir)).filter((name) => name.startsWith('metalbar-power-'))
  return { folder, seen, options, left, ran: () => readFile(path.join(folder.dir, 'ran'), 'utf8') }
}

const switchedOn = { name: 'updateSettings', settings: { applePowerEnabled: true, powerSource: 'powermetrics' } }

test('the script is shown, run in Terminal out of a private folder, and gone; then power is switched on', async () => {
  const it = await trial('touch "$(dirname "$0")/rule"')
  await using _folder = it.folder
  expect(await measurePower(it.options)).toEqual({ outcome: 'done', message: '' })
  expect(it.seen).toMatchObject({ modes: [0o700, 0o700], commands: [switchedOn] })
  expect(await it.ran()).toBe('1 /an app/cli.js power install\n')
  expect(await it.left()).toEqual([])
})

test('the command of a package is run as it is, since its Electron is no Node.js', () => {
  expect(powerScript({ program: '/Applications/Metalbar.app/bin/metal-agent' }, 'remove')).toMatch(
    /\n'\/Applications\/Metalbar\.app\/bin\/metal-agent' power remove\n$/,
  )
})

test('where sudo has the rule already nothing is asked', async () => {
  const it = await trial('', { leave: () => Promise.resolve(given) })
  await using _folder = it.folder
  await measurePower(it.options)
  expect(it.seen).toMatchObject({ shown: [], commands: [switchedOn] })
})

test('a script that is not wanted is not run, and nothing is left of it', async () => {
  const it = await trial('', { confirm: () => Promise.resolve(false) })
  await using _folder = it.folder
  expect(await measurePower(it.options)).toBeUndefined()
  expect([it.seen.modes, it.seen.commands, await it.left()]).toEqual([[], [], []])
})

test.each<[what: string, changes: Partial<MeasurePowerOptions>, message: string]>([
  ['a password that was wrong', {}, 'sudo does not let this user measure power yet: the output in Terminal says why.'],
  ['no Terminal', { openFile: () => Promise.resolve('no application') }, 'Terminal cannot be opened: no application.'],
  [
    'a Terminal that is left open',
    { openFile: () => Promise.resolve(''), limitMs: 100 },
    'The script in Terminal did not end in time. Try again.',
  ],
])('%s is said, and nothing is switched on or left', async (_, changes, message) => {
  const it = await trial('exit 1', changes)
  await using _folder = it.folder
  expect(await measurePower(it.options)).toEqual({ outcome: 'failed', message })
  expect([it.seen.commands, await it.left()]).toEqual([[], []])
})

test("sudo's rule is installed or removed in Terminal without anything being switched on", async () => {
  const it = await trial(
    'case $3 in install) touch "$(dirname "$0")/rule" ;; remove) rm "$(dirname "$0")/rule" ;; esac',
  )
  await using _folder = it.folder
  expect(await changePowerRule(it.options, 'install')).toEqual({
    outcome: 'done',
    message: 'sudo lets powermetrics run without a password.',
  })
  it.seen.shown.length = 0
  expect(await changePowerRule(it.options, 'remove')).toEqual({
    outcome: 'done',
    message: 'sudo asks for a password again before powermetrics runs.',
  })
  expect(it.seen.commands).toEqual([])
  expect(await it.ran()).toBe('1 /an app/cli.js power install\n1 /an app/cli.js power remove\n')
  expect(await it.left()).toEqual([])
})

test.each(['install', 'remove'] as const)('%s that is not wanted, or does not happen, is told so', async (change) => {
  const leave = () => Promise.resolve(change === 'remove' ? given : none)
  const unwanted = await trial('', { leave, confirm: () => Promise.resolve(false) })
  await using _unwanted = unwanted.folder
  expect(await changePowerRule(unwanted.options, change)).toBeUndefined()
  const failing = await trial('exit 1', { leave })
  await using _failing = failing.folder
  expect(await changePowerRule(failing.options, change)).toMatchObject({ outcome: 'failed' })
})

test('the script names every path as one word, whatever is in it, and takes away nothing but itself and its empty folder', async () => {
  await using folder = await temporaryFolder()
  const [inside, own] = [path.join(folder.dir, "it's `x`"), { program: '/a b/$(touch x)', script: `/it's/"cli".js` }]
  const [script, other] = [path.join(inside, 'measure-power.command'), path.join(folder.dir, 'other')]
  await mkdir(inside)
  await writeFile(other, '')
  const text = powerScript(own, 'install').replaceAll('ELECTRON_RUN_AS_NODE=1', 'printf "%s\\n"')
  await writeFile(script, text, { mode: 0o700 })
  const words = execFileSync(script, { encoding: 'utf8' }).split('\n').slice(0, 4)
  expect(words).toEqual([own.program, own.script, 'power', 'install'])
  expect(await readdir(folder.dir)).toEqual(['other'])

  await mkdir(inside)
  await writeFile(script, text, { mode: 0o700 })
  await writeFile(path.join(inside, 'kept'), '')
  execFileSync(script)
  expect(await readdir(inside)).toEqual(['kept'])
})
