import type { RuntimeDeed } from '../../contract/commands.ts'
import type { Words } from '../../contract/words.ts'

type Of = Readonly<Record<RuntimeDeed, string>>

const button: Of = { install: 'Install…', update: 'Update…', rollback: 'Go back…', remove: 'Remove…' }
const ask: Of = { install: 'Install', update: 'Update', rollback: 'Go back', remove: 'Remove' }
const doing: Of = {
  install: 'Installing',
  update: 'Updating',
  rollback: 'Going back to the earlier version of',
  remove: 'Removing',
}

/** What a person reads while a runtime is installed, updated or removed. */
export const deedWords = {
  button,
  ask,
  labelOf: (deed: RuntimeDeed, name: string) =>
    deed === 'rollback' ? `Go back to the earlier version of ${name}` : `${ask[deed]} ${name}`,
  looking: 'Finding the commands…',
  commands: 'These commands run on this machine, one after the other:',
  command: 'Command',
  folder: (deed: RuntimeDeed, folder: string) =>
    deed === 'rollback' ? `The version in ${folder} will be used again.` : `${folder} will be deleted.`,
  stay: 'Cancel',
  running: (deed: RuntimeDeed, name: string) => `${doing[deed]} ${name}…`,
  output: 'What the commands print',
  cancel: 'Cancel',
  cancelOf: (name: string) => `Cancel the work on ${name}`,
  close: 'Close',
  inTerminal: 'A page in a browser cannot install programs. Run in a terminal on this machine:',
  installLine: (name: string) => `metal-agent runtimes install ${name}`,
  copyCommand: (name: string) => `Copy command for ${name}`,
} as const satisfies Words
