import { execFileSync, spawnSync } from 'node:child_process'
import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  commandLine,
  differences,
  isUntouched,
  refuseUnusableTexts,
  UnitTextError,
} from '../../../../src/installation/service/service-plan.ts'
import { readSystemdUnit, SystemdService, systemdUnitText } from '../../../../src/installation/service/systemd.ts'
import { onPath } from '../../../../tasks/setup/tools.ts'
import { skipWhen } from '../../../support/skip.ts'
import { temporaryFolder } from '../../../support/temporary-folder.ts'
import { uninstallWorld } from '../../../support/uninstall-world.ts'
import { examplePlan, oddTexts } from './example-plans.ts'

const unit = path.join(import.meta.dirname, '../../../../assets/systemd/llmkube-metal-agent.service')

test('the unit is the file that assets show', async () => {
  await expect(systemdUnitText(examplePlan('systemdUser'))).toMatchFileSnapshot(unit)
})

test('whatever stands in a path or a variable comes back as it was', () => {
  const text = fc.string({ unit: 'grapheme', minLength: 1 }).filter((one) => !/\p{Cc}|^\s|\s$/u.test(one))
  fc.assert(
    fc.property(text, text, (one, other) => {
      const flags = new Map([...examplePlan('systemdUser').flags, ['namespace', other]])
      const plan = examplePlan('systemdUser', { program: [`/${one}`], flags, environment: { ODD: one } })
      const file = systemdUnitText(plan)
      expect(readSystemdUnit(file)).toMatchObject({ words: commandLine(plan), environment: { ODD: one } })
      expect(isUntouched(file)).toBe(true)
    }),
    // A separator of lines, but not one that ends a line of the unit.
    { examples: [['a', 'b\u2028c']] },
  )
})

test('a change by hand is noticed and named by its key', () => {
  const before = systemdUnitText(examplePlan('systemdUser'))
  const edited = before.replace('RestartSec=10', 'RestartSec=1').replace('--namespace=default', '--namespace=mars')
  const values = (text: string) => readSystemdUnit(text).values
  expect([isUntouched(edited), differences(values(edited), values(before))]).toEqual([
    false,
    ['--namespace: mars → default', 'Service.RestartSec: 1 → 10'],
  ])
})

test('what changed of a variable is said without its value', () => {
  const valuesWith = (environment: Readonly<Record<string, string>>) =>
    readSystemdUnit(systemdUnitText(examplePlan('systemdUser', { environment }))).values
  expect(differences(valuesWith({ OLD: 'secret 1', KEPT: 'a' }), valuesWith({ NEW: 'secret 2', KEPT: 'b' }))).toEqual([
    'Environment.OLD: is no longer set',
    'Environment.KEPT: has another value',
    'Environment.NEW: is set',
  ])
})

test.for(["/it's", '/a"b', '/a\\b'])('a program that systemd would not run is refused: %s', (program) => {
  expect(() => refuseUnusableTexts(examplePlan('systemdUser', { program: [program] }))).toThrow(
    /systemd runs no program/,
  )
  expect(() => refuseUnusableTexts(examplePlan('launchAgent', { program: [program] }))).not.toThrow()
})

test.for(['', '[Service]\nType=exec\n', systemdUnitText(examplePlan('systemdUser')).slice(0, 900)])(
  'half of a unit is refused in one sentence',
  (text) => {
    expect(() => readSystemdUnit(text)).toThrow(UnitTextError)
  },
)

test.for([
  [['LoadState=loaded', 'UnitFileState=enabled', 'MainPID=7', 'NRestarts=3'], { isLoaded: true, pid: 7, restarts: 3 }],
  [['LoadState=loaded', 'UnitFileState=disabled', 'MainPID=0'], { isLoaded: false, pid: undefined, restarts: 0 }],
  [['LoadState=not-found', 'UnitFileState=enabled'], { isLoaded: false, pid: undefined, lastExit: undefined }],
  [['ExecMainCode=1', 'ExecMainStatus=2', 'ExecMainExitTimestampMonotonic=5'], { lastExit: { code: 2 } }],
  [['ExecMainCode=2', 'ExecMainStatus=9', 'ExecMainExitTimestampMonotonic=5'], { lastExit: { signal: '9' } }],
  [['ExecMainCode=1', 'ExecMainStatus=2', 'ExecMainExitTimestampMonotonic=0'], { lastExit: undefined }],
] as const)('what systemctl shows is read: %j', async ([shown, state]) => {
  await using there = await uninstallWorld()
  await there.programs({ systemctl: `printf '%s\\n' ${shown.join(' ')}` })
  expect(await new SystemdService(there.host).state()).toMatchObject(state)
})

describe('systemd itself', () => {
  const missing = onPath('systemd-analyze') === undefined ? 'systemd-analyze is not installed' : undefined
  skipWhen(missing)

  test.for(['/bin/true', ...oddTexts.map((text) => path.join('/tmp', text))])(
    'accepts the unit of %s',
    async (place) => {
      await using folder = await temporaryFolder()
      const program = path.join(folder.dir, place.replace(/["'\\]/g, ''))
      await mkdir(path.dirname(program), { recursive: true })
      await writeFile(program, '#!/bin/sh\n', { mode: 0o755 })
      const file = path.join(folder.dir, 'llmkube-metal-agent.service')
      const flags = new Map([...examplePlan('systemdUser').flags, ['model-store', place]])
      await writeFile(file, systemdUnitText(examplePlan('systemdUser', { program: [program], flags })))
      const env = { PATH: process.env['PATH'], HOME: folder.dir, XDG_RUNTIME_DIR: folder.dir }
      const { status, stderr } = spawnSync('systemd-analyze', ['--user', '--man=no', 'verify', file], {
        env,
        encoding: 'utf8',
      })
      expect([status, stderr.split('\n').filter((line) => line.includes('llmkube-metal-agent'))]).toEqual([0, []])
    },
  )

  test('says of a unit with a wrong key that it does not know it, so that its silence counts', async () => {
    await using folder = await temporaryFolder()
    const file = path.join(folder.dir, 'wrong.service')
    await writeFile(file, '[Service]\nExecStart=/bin/true\nKillModus=process\n')
    const env = { PATH: process.env['PATH'], HOME: folder.dir, XDG_RUNTIME_DIR: folder.dir }
    const said = execFileSync('sh', ['-c', `systemd-analyze --user --man=no verify '${file}' 2>&1 || true`], {
      env,
      encoding: 'utf8',
    })
    expect(said).toMatch(/KillModus/)
  })
})
