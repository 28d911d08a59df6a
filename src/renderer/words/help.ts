import type { DoctorSubject, Verdict } from '../../contract/doctor.ts'

export const helpWords = {
  title: 'Help',
  intro:
    'What keeps a model from being served or reached, and what to do about it. Nothing is changed before you agree.',
  looking: 'Looking at this machine and its cluster. This takes up to ten seconds.',
  again: 'Look again',
  toMend: 'Problems',
  allWell: 'Nothing is in the way that could be found here.',
  inOrder: (count: number) => (count === 1 ? '1 question with nothing to do' : `${count} questions with nothing to do`),
  fromCluster: 'Test from inside the cluster',
  fromClusterIntro:
    'A Pod asks a service of this machine by its Service and by its address, tells how far it got, and is deleted. It needs an image, which Settings name, and the right to make Pods.',
  askPod: 'Test from a Pod',
  askPodFor: (name: string) => `Test from a Pod: ${name}`,
  asking: 'The Pod is made and asks. This takes up to a minute.',
  cancel: 'Cancel',
  unserved: (count: number) =>
    count === 1
      ? '1 service that this machine does not serve now'
      : `${count} services that this machine does not serve now`,
  report: 'Report to send',
  reportIntro:
    'For whoever is to help: versions, settings, what happened, logs and what is found here. Tokens, passwords, keys and the path of your home are taken out; names of machines and what servers wrote stay in.',
  reportFiles: 'Files of the report',
  collect: 'Collect…',
  save: 'Save as a zip file',
  discard: 'Discard',
  more: 'Read more',
  less: 'Read less',
  moreAbout: (asks: string) => `Read more: ${asks}`,
  pageMissing: 'The page cannot be read.',
} as const

export const subjectWords: Readonly<Record<DoctorSubject, string>> = {
  app: 'App',
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
