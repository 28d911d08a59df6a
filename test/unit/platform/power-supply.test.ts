import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { DarwinPlatform } from '../../../src/agent-core/platform/darwin.ts'
import { powerSupply } from '../../../src/agent-core/platform/sysfs-power.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

/** After manual pages and what people posted; not recorded here. */
const batt = {
  mains: `Now drawing from 'AC Power'
 -InternalBattery-0 (id=21954659)\t100%; charged; 0:00 remaining present: true
`,
  battery: `Now drawing from 'Battery Power'
 -InternalBattery-0 (id=4653155)\t84%; discharging; 5:12 remaining present: true
`,
  noEstimate: `Now drawing from 'Battery Power'
 -InternalBattery-0 (id=4653155)\t9%; discharging; (no estimate) present: true
`,
  desktop: "Now drawing from 'AC Power'\n",
  ups: `Now drawing from 'UPS Power'
 -Back-UPS ES 700G (id=5046272)\t77%; discharging; 0:42 remaining present: true
`,
}
const settings = (line: string) => `System-wide power settings:
Currently in use:
 standby              1
${line} Sleep On Power Button 1
 hibernatemode        3
 powernap             1
 sleep                1 (sleep prevented by powerd, caffeinate)
 displaysleep         10
`

describe('what a Mac runs on', () => {
  test.each([
    ['mains', batt.mains, settings(' lowpowermode         0\n'), { source: 'mains', charge: 1, lowPowerMode: false }],
    [
      'its battery',
      batt.battery,
      settings(' lowpowermode         1\n'),
      { source: 'battery', charge: 0.84, lowPowerMode: true },
    ],
    [
      'its battery, a moment after the plug was pulled',
      batt.noEstimate,
      settings(''),
      { source: 'battery', charge: 0.09, lowPowerMode: false },
    ],
    [
      'mains, without a battery',
      batt.desktop,
      settings(' powermode            1\n'),
      { source: 'mains', lowPowerMode: true },
    ],
    [
      'mains, in High Power Mode',
      batt.desktop,
      settings(' powermode            2\n'),
      { source: 'mains', lowPowerMode: false },
    ],
    ['a UPS', batt.ups, settings(''), { source: 'battery', charge: 0.77, lowPowerMode: false }],
    ['what it does not say', 'pmset: command failed', settings(''), undefined],
  ])('%s', async (_what, battery, current, wanted) => {
    const platform = new DarwinPlatform({
      run: (_command, args) => Promise.resolve({ exitCode: 0, stdout: args.includes('batt') ? battery : current }),
    })
    expect(await platform.powerSupply()).toEqual(wanted && { ...wanted, sleepAfterMinutes: 1 })
  })

  test('it is kept awake by caffeinate, for as long as this process lives', () => {
    expect(new DarwinPlatform().awakeProgram()).toEqual({
      command: '/usr/bin/caffeinate',
      args: ['-i', '-w', String(process.pid)],
    })
  })
})

describe('what a machine with Linux runs on', () => {
  const mouse = { type: 'Battery', scope: 'Device', status: 'Discharging', capacity: '12' }
  const battery = (status: string) => ({ type: 'Battery', status, capacity: '84' })
  test.each([
    ['nothing that it tells', {}, '', undefined],
    [
      'mains',
      { AC: { type: 'Mains', online: '1' }, BAT0: battery('Charging') },
      '',
      { source: 'mains', charge: 0.84, lowPowerMode: false },
    ],
    [
      'its battery',
      { AC: { type: 'Mains', online: '0' }, BAT0: battery('Discharging') },
      'low-power',
      { source: 'battery', charge: 0.84, lowPowerMode: true },
    ],
    [
      'a weak charger, which it draws more than',
      { ucsi: { type: 'USB', online: '1' }, BAT0: battery('Discharging') },
      'balanced',
      { source: 'mains', charge: 0.84, lowPowerMode: false },
    ],
    [
      'mains, with a mouse',
      { AC: { type: 'Mains', online: '1' }, mouse },
      '',
      { source: 'mains', lowPowerMode: false },
    ],
  ])('%s', async (_what, supplies, profile, wanted) => {
    await using folder = await temporaryFolder()
    for (const [name, files] of Object.entries(supplies)) {
      await mkdir(join(folder.dir, 'supplies', name), { recursive: true })
      for (const [file, text] of Object.entries(files))
        await writeFile(join(folder.dir, 'supplies', name, file), `${text}\n`)
    }
    await writeFile(join(folder.dir, 'profile'), `${profile}\n`)
    expect(powerSupply({ supplies: join(folder.dir, 'supplies'), profile: join(folder.dir, 'profile') })).toEqual(
      wanted,
    )
  })
})
