import type { PowerRuleState } from '../../../contract/power-rule.ts'

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
  install: 'This shows the rule once more and installs it; it asks for your password:',
  installCommand: 'metal-agent power install',
  copyInstall: 'Copy command that installs the rule',
  remove: 'This takes it away; it asks for your password:',
  removeCommand: 'metal-agent power remove',
  copyRemove: 'Copy command that removes the rule',
  lookAgain: 'Look again',
} as const
