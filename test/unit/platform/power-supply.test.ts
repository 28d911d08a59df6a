import { describe, expect, test } from 'vitest'
import { DarwinPlatform } from '../../../src/agent-core/platform/darwin.ts'

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
