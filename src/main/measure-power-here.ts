import { tmpdir, userInfo } from 'node:os'
import { shell } from 'electron'
import { leaveOf } from '../agent-core/power/sudo-leave.ts'
import type { PowerRuleChange } from '../contract/app-bridge.ts'
import type { AgentLink } from '../contract/client.ts'
import type { CommandResult } from '../contract/commands.ts'
import { changePowerRule, measurePower, type MeasurePowerOptions } from './measure-power.ts'
import { confirm } from './questions.ts'

/** With this app's own command, in Terminal. `script`: the built `metal-agent`. */
export const measurePowerHere = (link: Link, script: string): Promise<CommandResult | undefined> =>
  measurePower(optionsOf(link, script))

/** Sudo's rule alone. */
export const changePowerRuleHere = (
  link: Link,
  script: string,
  change: PowerRuleChange,
): Promise<CommandResult | undefined> => changePowerRule(optionsOf(link, script), change)

type Link = Pick<AgentLink, 'command'>

const optionsOf = (link: Link, script: string): MeasurePowerOptions => ({
  link,
  temporaryDir: tmpdir(),
  own: { program: process.execPath, script },
  confirm: (detail) =>
    confirm({
      message: 'powermetrics runs as root only. Terminal runs this script, which asks for your password:',
      detail,
      yes: 'Open Terminal',
    }),
  openFile: (file) => shell.openPath(file),
  leave: () => leaveOf({ name: userInfo().username, id: userInfo().uid }),
})
