import type { DoctorSubject, Verdict } from '../../contract/doctor.ts'

export const helpWords = {
  title: 'Help',
  intro:
    'What keeps a model from being served or reached, and what to do about it. Nothing is changed before you agree.',
  looking: 'Looking at this machine and its cluster. This takes up to ten seconds.',
  again: 'Look again',
  toMend: 'To be mended',
  allWell: 'Nothing is in the way that could be found here.',
  inOrder: (count: number) => (count === 1 ? '1 question with nothing to do' : `${count} questions with nothing to do`),
  unserved: (count: number) =>
    count === 1 ? '1 service that this machine does not serve' : `${count} services that this machine does not serve`,
  report: 'Report to send',
  reportIntro:
    'For whoever is to help: versions, settings, what happened, logs and what is found here. Tokens, passwords, keys and the path of your home are taken out.',
  reportFiles: 'Files of the report',
  collect: 'Collect…',
  save: 'Save as a zip file',
  discard: 'Discard',
  more: (page: string) => `More in docs/${page}`,
} as const

export const subjectWords: Readonly<Record<DoctorSubject, string>> = {
  agent: 'Agent',
  cluster: 'Cluster',
  machine: 'This machine',
  serving: 'Serving',
}

export const verdictWords: Readonly<Record<Verdict, string>> = {
  pass: 'In order',
  warn: 'Warning',
  fail: 'Failure',
  notApplicable: 'Not applicable',
}
