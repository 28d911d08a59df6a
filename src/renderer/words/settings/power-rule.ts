import type { PowerRuleState } from '../../../contract/power.ts'

/** The rule by which sudo lets powermetrics run. */
export const powerRuleWords = {
  title: 'Rule of sudo',
  states: {
    installed: 'Installed: sudo lets powermetrics run by the command lines below and no other, without a password.',
    missing:
      'Not installed: sudo asks for a password before powermetrics may run, so power cannot be measured with it.',
    different: 'Different: what sudo allows is not the rule below.',
    unknown: 'Whether it is installed is not known, since sudo gave no answer.',
    notHere: 'Power is read from powermetrics, which only macOS has.',
  } satisfies Record<PowerRuleState, string>,
  show: 'What sudo would allow',
  shown: 'What sudo allows',
  file: (path: string) => `This is all that ${path} would say; the file belongs to root, and visudo checks it first:`,
  label: 'Rule',
  copyRule: 'Copy rule',
  inTerminal: {
    install: 'In a terminal on this Mac, this shows the rule once more and installs it; it asks for your password:',
    remove: 'In a terminal on this Mac, this takes the rule away; it asks for your password:',
  },
  commands: { install: 'metal-agent power install', remove: 'metal-agent power remove' },
  copy: { install: 'Copy command that installs the rule', remove: 'Copy command that removes the rule' },
  inApp: 'Terminal does it and asks for your password; what it runs is shown to you first.',
  change: { install: 'Install the rule…', remove: 'Remove the rule…' },
  lookAgain: 'Look again',
} as const
