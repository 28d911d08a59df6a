import type { StartSettingView } from '../../contract/settings.ts'
import { Command } from '../components/command.tsx'
import { Folded } from '../components/folded.tsx'
import { Sentence } from '../components/sentence.tsx'
import { settingWords } from '../words/settings/settings.ts'
import styles from './start-setting.module.css'

interface StartSettingProps {
  readonly view: StartSettingView
  /** Of the app; absent where the agent is started with flags. */
  readonly startFile: string | undefined
}

/** A setting that counts only from the start of the agent: what it is, where that comes from, and how another would be stated. */
export function StartSetting({ view, startFile }: StartSettingProps) {
  const line = startFile === undefined ? view.flag : view.line
  return (
    <li className={styles['setting']}>
      <p>
        <strong className={styles['title']}>{settingWords.startTitle(view)}</strong>{' '}
        <span className={styles['value']}>
          <Sentence text={settingWords.startValue(view)} />
        </span>
      </p>
      <p className={styles['note']}>
        <Sentence text={settingWords.startHelp(view)} />
      </p>
      <Folded title={settingWords.why}>
        <p className={styles['note']}>
          <Sentence text={settingWords.startWhy(view, startFile)} />
        </p>
        {line !== undefined && <Command text={line} copyLabel={settingWords.copyStart(view)} />}
      </Folded>
    </li>
  )
}
