import { tmpdir, userInfo } from 'node:os'
import { shell } from 'electron'
import { leaveOf } from '../agent-core/power/sudoers.ts'
import type { PowerRuleChange } from '../contract/app-bridge.ts'
import type { AgentLink } from '../contract/client.ts'
import type { CommandResult } from '../contract/commands.ts'
import type { Question } from './deeds.ts'
import { changePowerRule, measurePower, type MeasurePowerOptions } from './measure-power.ts'
import type { OwnCommand } from './power-script.ts'

export interface OwnPower {
  readonly link: Pick<AgentLink, 'command'>
  readonly own: OwnCommand
  readonly confirm: (question: Question) => Promise<boolean>
}

/** With this app's own command, in Terminal. */
export const measurePowerHere = (own: OwnPower): Promise<CommandResult | undefined> => measurePower(optionsOf(own))

/** Sudo's rule alone. */
export const changePowerRuleHere = (own: OwnPower, change: PowerRuleChange): Promise<CommandResult | undefined> =>
  changePowerRule(optionsOf(own), change)

const questions: Readonly<Record<PowerRuleChange, string>> = {
  install: 'powermetrics runs as root only. Terminal runs this script, which asks for your password:',
  remove:
    'powermetrics is to run with a password only, so power is measured no more by it. Terminal runs this script, which asks for your password:',
}

const optionsOf = ({ link, own, confirm }: OwnPower): MeasurePowerOptions => ({
  link,
  temporaryDir: tmpdir(),
  own,
  confirm: (detail, change) => confirm({ message: questions[change], detail, yes: 'Open Terminal' }),
  openFile: (file) => shell.openPath(file),
  leave: () => leaveOf({ name: userInfo().username, id: userInfo().uid }),
})
