import { tmpdir, userInfo } from 'node:os'
import { shell } from 'electron'
import { leaveOf } from '../agent-core/power/sudo-leave.ts'
import type { AgentLink } from '../contract/client.ts'
import type { CommandResult } from '../contract/commands.ts'
import { measurePower } from './measure-power.ts'
import { confirm } from './questions.ts'

/** With this app's own command, in Terminal. `script`: the built `metal-agent`. */
export const measurePowerHere = (
  link: Pick<AgentLink, 'command'>,
  script: string,
): Promise<CommandResult | undefined> =>
  measurePower({
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
